// The kind `allocator`: what the CUDA caching allocator does with plain sequences of requests
// (ops/) and with training steps (steps/).
#include "tests/recordings/allocator.h"

#include <algorithm>

#include "tests/recordings/recorded_file.h"

namespace shardscope::recordings {
namespace {

struct Part {
  std::string folder;
  Outcome (*check)(const nlohmann::ordered_json& recorded, const Options& options);
};

const std::vector<Part>& parts() {
  static const std::vector<Part> all{{"ops", check_allocator_ops},
                                     {"steps", check_allocator_steps}};
  return all;
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const Part& part : parts())
    if (std::filesystem::exists(folder / part.folder))
      for (const std::string& name : recorded_names(folder / part.folder, {}))
        names.push_back(part.folder + "/" + name);
  return names;
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  for (const Part& part : parts())
    if (name.starts_with(part.folder + "/"))
      return part.check(recorded_json(folder, name), options);
  return {.difference = "neither ops/ nor steps/", .worst_share = {}, .worst = {}};
}

}  // namespace

Kind allocator_kind() {
  std::vector<std::string> fields = allocator_ops_fields();
  for (const std::string& field : allocator_steps_fields())
    if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
  return {.name = "allocator", .fields = fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings

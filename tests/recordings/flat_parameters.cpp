// The kind `flat_parameters`: how FSDP, accelerate, DDP and DeepSpeed group and shard parameters.
#include "tests/recordings/flat_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/recordings/recorded_file.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<FlatParametersFile>& files() {
  static const std::vector<FlatParametersFile> all{
      accelerate_v2_recordings(),  ddp_assign_recordings(), ddp_run_recordings(),
      deepspeed_zero_recordings(), estimator_recordings(),  fsdp1_recordings(),
      fsdp2_recordings()};
  return all;
}

std::vector<std::string> all_fields() {
  std::vector<std::string> fields;
  for (const FlatParametersFile& file : files())
    for (const std::string& field : file.fields)
      if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
  return fields;
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::string& file : recorded_names(folder, {"cases", "models"}))
    for (const Json& row : recorded_json(folder, file))
      names.push_back(file + "/" + row.at("name").get<std::string>());
  return names;
}

Json case_of(const std::filesystem::path& folder, const std::string& file,
             const std::string& name) {
  for (Json& row : recorded_json(folder, file))
    if (row.at("name") == name) return std::move(row);
  throw Error({.where = (folder / (file + ".json")).string(),
               .what = fmt::format("has no case \"{}\"", name),
               .way_out = {}});
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string file = name.substr(0, slash);
  const auto found = std::find_if(files().begin(), files().end(),
                                  [&](const FlatParametersFile& f) { return f.name == file; });
  if (found == files().end())
    return {.difference = "nothing computes " + file, .worst_share = {}, .worst = {}};
  return found->check(case_of(folder, file, name.substr(std::min(slash + 1, name.size()))), folder,
                      options);
}

}  // namespace

Kind flat_parameters_kind() {
  return {.name = "flat_parameters", .fields = all_fields(), .cases = cases, .check = check};
}

}  // namespace shardscope::recordings

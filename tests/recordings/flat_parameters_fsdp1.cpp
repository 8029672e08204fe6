// fsdp1.json: units, flat parameters and shards of FullyShardedDataParallel.
#include <nlohmann/json.hpp>

#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options&) {
  const ModuleTree tree =
      recorded_tree(recorded_model(folder, recorded.at("case").at("model").get<std::string>()));
  return {.difference = tree.modules.empty() ? "no modules" : "not computed yet",
          .worst_share = {},
          .worst = {}};
}

}  // namespace

FlatParametersFile fsdp1_recordings() {
  return {.name = "fsdp1",
          .fields = {"composition", "units", "error", "warnings", "accelerate_policy"},
          .check = check};
}

}  // namespace shardscope::recordings

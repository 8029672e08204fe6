// accelerate_v2.json: the groups that accelerate makes under fsdp_version 2.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/base/refusal.h"
#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/accelerate/wrapped_modules.h"
#include "core/config/values/config_json.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/plans/accelerate_fsdp2.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/flat_parameters_fsdp2.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

/// Of a transformers model: what the product knows of its class. Else nothing, as of plain modules.
TransformersFacts facts_of(const Json& spec, const ModuleTree& tree) {
  if (!spec.contains("hf")) return {};
  const std::string class_name = spec.at("hf").get<std::string>();
  return transformers_facts(model_of_config(JsonValue::parse(recorded_config(spec).dump(), "spec"),
                                            {.class_name = class_name}),
                            tree);
}

/// FullyShardedDataParallelPlugin(fsdp_version=2, ...) of the recorded arguments.
accelerate::FsdpPlugin plugin_of(Json arguments) {
  if (arguments.contains("sharding_strategy") && !arguments.contains("reshard_after_forward"))
    throw Refusal("ValueError", {.where = "sharding_strategy",
                                 .what = "version 2 has none",
                                 .way_out = "give reshard_after_forward"});
  arguments["fsdp_version"] = 2;
  return accelerate::make_fsdp_plugin(read_json(arguments.dump(), "plugin"), {});
}

std::set<std::int32_t> ignored_of(const Json& plugin, const ModuleTree& tree) {
  std::set<std::int32_t> ignored;
  if (!plugin.contains("ignored_modules")) return ignored;
  const std::string pattern = plugin.at("ignored_modules").get<std::string>();
  for (const std::int32_t module : accelerate::matching_modules(tree, pattern, {}))
    ignored.merge(accelerate::parameters_below(tree, module));
  return ignored;
}

std::optional<Dtype> precision_of(const std::string& word) {
  if (word == "no") return std::nullopt;
  return word == "fp8" ? Dtype::bfloat16 : recorded_dtype(word);
}

RecordedPlan planned(const Json& given, const Json& model, int world) {
  const ModuleTree tree = recorded_tree(model);
  const accelerate::FsdpPlugin plugin = plugin_of(given.at("plugin"));
  AccelerateFsdp2 settings{.wrap = plugin.wrap,
                           .wrap_classes = plugin.wrap_classes,
                           .min_parameters = plugin.min_num_params.value_or(0).number(),
                           .reshard_after_forward = plugin.reshard_after_forward.boolean(),
                           .ignored_parameters = ignored_of(given.at("plugin"), tree),
                           .mixed_precision = precision_of(given.value("mixed_precision", "no")),
                           .mesh = recorded_mesh(given, world)};
  settings.mesh.given = given.contains("mesh");
  AccelerateFsdp2Plan plan =
      accelerate_fsdp2(tree, facts_of(model.at("spec"), tree), settings, recorded_moment(given));
  return {.tree = std::move(plan.tree), .plan = std::move(plan.fsdp2)};
}

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options& options) {
  const Json& given = recorded.at("case");
  const Json model = recorded_model(folder, given.at("model").get<std::string>());
  return check_fsdp2_plans(
      recorded, model.at("spec"), [&](int world) { return planned(given, model, world); }, options);
}

}  // namespace

FlatParametersFile accelerate_v2_recordings() {
  return {.name = "accelerate_v2",
          .fields = {"groups", "variants", "units", "ranks", "traffic", "error", "run_error"},
          .check = check};
}

}  // namespace shardscope::recordings

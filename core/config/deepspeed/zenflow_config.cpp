#include "core/config/deepspeed/zenflow_config.h"

#include <algorithm>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

Refusal refused(std::string_view key, std::string what) {
  return Refusal("ValueError", {.where = std::string(key), .what = std::move(what), .way_out = {}});
}

void check_zenflow(ConfigValue& zenflow) {
  const ConfigValue& strategy = zenflow.at("select_strategy");
  if (!strategy.is("auto") && !strategy.is("step") && !strategy.is("epoch"))
    throw refused("select_strategy", "expected auto, step or epoch");
  for (const char* key : {"select_interval", "update_interval"}) {
    const ConfigValue& interval = zenflow.at(key);
    if (interval.is_string() && !interval.is("auto"))
      throw refused(key, "expected a number or \"auto\"");
  }
  const ConfigValue& update = zenflow.at("update_interval");
  if (update.is_integer() && update.integer() < 1)
    throw refused("update_interval", "expected at least 1");
}

/// A single text stands for a list of one; a section that is null is empty.
void lists_of_texts(ConfigValue& given) {
  for (ConfigValue::Entry& entry : given.entries())
    if (entry.value.is_string()) entry.value = ConfigValue::list({entry.value});
}

/// Each list without its repetitions.
void drop_repetitions(ConfigValue& made) {
  for (ConfigValue::Entry& entry : made.entries()) {
    ConfigValue::List kept;
    for (const ConfigValue& name : entry.value.elements())
      if (std::find(kept.begin(), kept.end(), name) == kept.end()) kept.push_back(name);
    entry.value = ConfigValue(std::move(kept));
  }
}

ModelField interval(std::string_view name) {
  return {.name = name, .kind = FieldKind::text_or_integer, .otherwise = "auto"};
}

ModelField texts(std::string_view name, ConfigValue otherwise) {
  return {.name = name, .kind = FieldKind::text_list, .otherwise = std::move(otherwise)};
}

}  // namespace

const PydanticModel& zenflow_model() {
  static const PydanticModel model{
      .name = "ZenFlowConfig",
      .fields = {{.name = "topk_ratio",
                  .kind = FieldKind::number,
                  .otherwise = 0.1,
                  .limits = {.gt = 0, .lt = 1}},
                 {.name = "select_strategy", .kind = FieldKind::text, .otherwise = "auto"},
                 interval("select_interval"),
                 interval("update_interval"),
                 {.name = "overlap_step", .kind = FieldKind::boolean, .otherwise = false},
                 {.name = "offload", .kind = FieldKind::boolean, .otherwise = false},
                 {.name = "auto_ratio",
                  .kind = FieldKind::number,
                  .otherwise = 0.99,
                  .limits = {.ge = 0, .le = 1}},
                 {.name = "full_warm_up_rounds", .kind = FieldKind::integer, .otherwise = 0},
                 {.name = "pt_reserved_cores_perc",
                  .kind = FieldKind::number,
                  .otherwise = 0.5,
                  .limits = {.ge = 0, .le = 1}},
                 {.name = "steps_per_epoch",
                  .kind = FieldKind::integer,
                  .nullable = true,
                  .hidden = true}},
      .after = check_zenflow};
  return model;
}

const PydanticModel& leaf_module_model() {
  static const PydanticModel model{
      .name = "DeepSpeedZeroLeafModuleConfig",
      .fields = {texts("classes",
                       ConfigValue::list(
                           {"transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
                            "transformers.models.qwen2_moe.modeling_qwen2_moe."
                            "Qwen2MoeSparseMoeBlock",
                            "transformers.models.qwen3_moe.modeling_qwen3_moe."
                            "Qwen3MoeSparseMoeBlock"})),
                 texts("names", ConfigValue::list()), texts("name_suffixes", ConfigValue::list())},
      .before = lists_of_texts,
      .after = drop_repetitions};
  return model;
}

}  // namespace shardscope

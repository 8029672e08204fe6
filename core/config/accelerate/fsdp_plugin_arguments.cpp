#include "core/config/accelerate/fsdp_plugin_arguments.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/base/refusal.h"

namespace shardscope::accelerate {
namespace {

/// Arguments that mean what a variable of the same text means.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> variables{{
    {"fsdp_version", "FSDP_VERSION"},
    {"reshard_after_forward", "FSDP_RESHARD_AFTER_FORWARD"},
    {"cpu_offload", "FSDP_OFFLOAD_PARAMS"},
    {"backward_prefetch", "FSDP_BACKWARD_PREFETCH"},
    {"state_dict_type", "FSDP_STATE_DICT_TYPE"},
    {"auto_wrap_policy", "FSDP_AUTO_WRAP_POLICY"},
    {"transformer_cls_names_to_wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP"},
    {"min_num_params", "FSDP_MIN_NUM_PARAMS"},
    {"use_orig_params", "FSDP_USE_ORIG_PARAMS"},
    {"sync_module_states", "FSDP_SYNC_MODULE_STATES"},
    {"forward_prefetch", "FSDP_FORWARD_PREFETCH"},
    {"activation_checkpointing", "FSDP_ACTIVATION_CHECKPOINTING"},
    {"cpu_ram_efficient_loading", "FSDP_CPU_RAM_EFFICIENT_LOADING"},
}};

void check_min_num_params(const ConfigValue& arguments) {
  const ConfigValue elements = arguments.get("min_num_params");
  if (elements.is_null() || elements.is_integer() || elements.is_boolean()) return;
  throw Refusal("ValueError", {.where = "min_num_params",
                               .what = "expected a whole number, got " + elements.repr(),
                               .way_out = "write it without a fraction or exponent"});
}

/// A text is split at commas, a list stays as it is.
std::vector<std::string> texts_of(const ConfigValue& list) {
  std::vector<std::string> texts;
  for (const ConfigValue& element : list.elements()) texts.push_back(element.str());
  return texts;
}

std::optional<bool> flag(const ConfigValue& arguments, std::string_view name) {
  const ConfigValue value = arguments.get(name);
  return value.is_null() ? std::nullopt : std::optional(value.truthy());
}

}  // namespace

FsdpPlugin make_fsdp_plugin(const ConfigValue& arguments, const Environment& environment) {
  check_min_num_params(arguments);
  Environment merged = environment;
  for (const auto& [argument, variable_name] : variables)
    if (const ConfigValue value = arguments.get(argument); !value.is_null())
      merged[std::string(variable_name)] = value.str();
  FsdpPlugin plugin = make_fsdp_plugin(merged);
  if (const ConfigValue classes = arguments.get("transformer_cls_names_to_wrap"); classes.is_list())
    plugin.wrap_classes = texts_of(classes);
  plugin.limit_all_gathers = flag(arguments, "limit_all_gathers").value_or(true);
  const ConfigValue strategy = arguments.get("reshard_after_forward");
  if (plugin.is_version(1) && strategy.is_string())
    plugin.reshard_after_forward = sharding_strategy_name(strategy.string());
  if (plugin.is_version(1) || plugin.is_version(2)) return plugin;
  // Only versions 1 and 2 look into the environment or refuse; others keep what they are given.
  plugin.use_orig_params = flag(arguments, "use_orig_params");
  plugin.sync_module_states = flag(arguments, "sync_module_states");
  plugin.forward_prefetch = flag(arguments, "forward_prefetch");
  return plugin;
}

}  // namespace shardscope::accelerate

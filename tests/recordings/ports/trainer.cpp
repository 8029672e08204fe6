#include "tests/recordings/ports/trainer.h"

#include "core/base/refusal.h"
#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/deepspeed/accelerate_prepare.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

Refusal refused(std::string where, std::string what, std::string way_out) {
  return Refusal(
      "ValueError",
      {.where = std::move(where), .what = std::move(what), .way_out = std::move(way_out)});
}

bool is_set(const TrainingArguments& arguments, std::string_view variable_name) {
  return lower_of(variable(arguments.environment, variable_name, "false")) == "true";
}

/// The plugin of the arguments, else of the environment.
std::optional<accelerate::FsdpPlugin> fsdp_of(const TrainingArguments& arguments) {
  if (!arguments.fsdp_plugin_args.is_null())
    return accelerate::make_fsdp_plugin(arguments.fsdp_plugin_args, arguments.environment);
  if (is_set(arguments, "ACCELERATE_USE_FSDP"))
    return accelerate::make_fsdp_plugin(arguments.environment);
  return std::nullopt;
}

/// Trainer.create_accelerator_and_postprocess, after the Accelerator is made.
void check_combinations(const TrainingArguments& arguments, const TrainerSetup& setup) {
  if (setup.fsdp && setup.fsdp->activation_checkpointing && arguments.activation_checkpointing)
    throw refused("activation_checkpointing", "it is set for the Trainer and in fsdp_config",
                  "keep the one in fsdp_config");
  const bool only_model = arguments.argument("save_only_model").truthy();
  if (only_model && (setup.fsdp || setup.deepspeed) &&
      arguments.argument("load_best_model_at_end").truthy())
    throw refused("save_only_model", "does not go with load_best_model_at_end here",
                  "drop one of them");
  if (setup.deepspeed && arguments.argument("auto_find_batch_size").truthy() &&
      arguments.deepspeed_plugin->zero_stage == ConfigValue(3))
    throw refused("auto_find_batch_size", "does not go with ZeRO stage 3", "give a batch size");
  if (only_model && setup.fsdp && setup.fsdp->state_dict_type == "SHARDED_STATE_DICT")
    throw refused("save_only_model", "does not go with SHARDED_STATE_DICT",
                  "set state_dict_type to FULL_STATE_DICT");
  if (arguments.fsdp.truthy() && setup.deepspeed)
    throw refused("fsdp", "FSDP and DeepSpeed are both on", "drop one of them");
}

}  // namespace

TrainerSetup set_up_trainer(const TrainingArguments& arguments, const ModuleTree& model,
                            const std::vector<std::string>& no_split_classes) {
  std::optional<accelerate::FsdpPlugin> fsdp = fsdp_of(arguments);
  TrainerSetup setup{.distributed_type = "MULTI_GPU",
                     .mixed_precision = arguments.mixed_precision,
                     .fsdp = {},
                     .deepspeed = arguments.deepspeed_plugin.has_value()};
  if (setup.deepspeed) {
    DeepSpeedPlugin plugin = *arguments.deepspeed_plugin;
    plugin.set_mixed_precision(arguments.mixed_precision);
    setup.distributed_type = "DEEPSPEED";
    setup.mixed_precision = enabled_precision(plugin.deepspeed_config());
  } else if (fsdp) {
    setup.distributed_type = "FSDP";
    if (arguments.mixed_precision != "no")
      accelerate::set_mixed_precision(*fsdp, arguments.mixed_precision);
    setup.fsdp = std::move(fsdp);
  }
  check_combinations(arguments, setup);
  if (setup.fsdp) accelerate::set_auto_wrap_policy(*setup.fsdp, model, no_split_classes);
  return setup;
}

}  // namespace shardscope

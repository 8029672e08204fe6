// transformers.TrainingArguments: what the Trainer makes of fsdp, fsdp_config and deepspeed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/deepspeed/accelerate_plugin.h"
#include "core/config/deepspeed/trainer_autos.h"
#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope {

/// TrainingArguments after __post_init__, as far as sharding, precision and batch go.
struct TrainingArguments {
  ConfigValue given;             ///< a dict: the keys that were set
  ConfigValue fsdp;              ///< true where FSDP is on; None or what was given where it is off
  ConfigValue fsdp_config;       ///< normalized: without the prefix fsdp_, defaults added; or None
  ConfigValue fsdp_plugin_args;  ///< arguments of FullyShardedDataParallelPlugin, or None
  std::string mixed_precision;   ///< "no", "fp16", "bf16"
  bool activation_checkpointing = false;                   ///< of the Trainer, not of FSDP
  Environment environment;                                 ///< with what __post_init__ sets in it
  std::optional<TrainerDeepSpeedConfig> deepspeed_config;  ///< of the argument `deepspeed`
  std::optional<DeepSpeedPlugin> deepspeed_plugin;         ///< of that, or of the environment
  std::vector<std::string> warnings;                       ///< what transformers logs

  /// What was set, else the field's default.
  ConfigValue argument(std::string_view name) const;
  /// Every field.
  ConfigValue with_defaults() const;
};

/// TrainingArguments(**given) in an environment, as one of `world` ranks. Files that `fsdp_config`
/// and `deepspeed` name come from `read_file`. Raises what transformers raises: TypeError for an
/// unknown key, ValueError, FileNotFoundError, JSONDecodeError. Source: transformers 5.23.0
/// training_args.py.
TrainingArguments make_training_arguments(const ConfigValue& given, const Environment& environment,
                                          const ReadFile& read_file, std::int64_t world = 1);

}  // namespace shardscope

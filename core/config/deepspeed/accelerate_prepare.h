// What Accelerator.prepare hands to deepspeed.initialize: the last "auto" filled in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/deepspeed/accelerate_plugin.h"
#include "core/config/deepspeed/model_widths.h"

namespace shardscope {

/// What prepare() is given besides the plugin.
struct DeepSpeedPreparation {
  std::int64_t world = 1;
  /// Accelerator(gradient_accumulation_steps=...), before ACCELERATE_GRADIENT_ACCUMULATION_STEPS.
  std::int64_t gradient_accumulation_steps = 1;
  std::vector<std::int64_t> loader_batch_sizes;  ///< of the data loaders; empty: none is passed
  std::int64_t sequence_parallel = 1;
  ModelWidths model;
};

struct PreparedDeepSpeed {
  ConfigValue config;           ///< config_params of deepspeed.initialize
  std::string mixed_precision;  ///< Accelerator.mixed_precision: "no", "fp16", "bf16"
  /// Accelerator.gradient_accumulation_steps before prepare(): DeepSpeed's replaces it then.
  std::int64_t gradient_accumulation_steps = 1;
  std::vector<std::string> warnings;
};

/// Accelerator(deepspeed_plugin=plugin) and prepare(model, torch optimizer[, loaders]). Raises what
/// accelerate raises. `mixed_precision` is ACCELERATE_MIXED_PRECISION. Source: accelerate 1.15.0
/// state.py, accelerator.py Accelerator._prepare_deepspeed.
PreparedDeepSpeed prepare_deepspeed(DeepSpeedPlugin plugin, const Environment& environment,
                                    const DeepSpeedPreparation& given);

/// AcceleratorState.mixed_precision of a DeepSpeed configuration: "fp16", "bf16" or "no".
std::string enabled_precision(const ConfigValue& config);

}  // namespace shardscope

// What DeepSpeed makes of its configuration: DeepSpeedConfig with every default.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope {

/// The values that take effect, under DeepSpeed's own names.
struct DeepSpeedConfig {
  /// A dict: world_size, the batch triple, gradient_clipping ... and the sections zero_optimization
  /// (every key under its JSON name; leaf_module among them), fp16, bf16 and
  /// activation_checkpointing. Sizes are elements unless the name ends in _bytes.
  ConfigValue values;
  std::vector<std::string> warnings;  ///< what DeepSpeed logs meanwhile
  /// The first key that divides a sequence or the model among ranks; empty: none does.
  std::string dividing_key;
};

/// DeepSpeedConfig(config) as rank 0 of `world` ranks. `config` is a dict; or text: the path of a
/// Hjson file that `read_file` knows, or base64 of one. Raises what DeepSpeed raises.
/// Source: deepspeed 0.19.8 runtime/config.py.
DeepSpeedConfig effective_deepspeed_config(const ConfigValue& config, std::int64_t world,
                                           const ReadFile& read_file);

}  // namespace shardscope

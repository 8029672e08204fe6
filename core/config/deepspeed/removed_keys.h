// Keys of DeepSpeed features that are gone, which it refuses by name.
#pragma once

#include <span>
#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope {

struct RemovedKey {
  std::string_view key;      ///< "amp", "zero_optimization.mics_shard_size"
  std::string_view feature;  ///< what is gone
  std::string_view way_out;
};

/// In the order in which DeepSpeed looks. Source: deepspeed 0.19.8 runtime/config.py
/// _REMOVED_TOP_LEVEL_CONFIG_KEYS, _REMOVED_ZERO_CONFIG_KEYS.
std::span<const RemovedKey> removed_deepspeed_keys();

/// Raises DeepSpeedConfigError for the first of them that stands in `config`.
void refuse_removed_keys(const ConfigValue& config);

}  // namespace shardscope

// What a training configuration asks for, in the words of no tool: what is read from every format
// and written to every other one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/values/config_value.h"
#include "core/schedule/offload_device.h"
#include "core/schedule/strategy.h"

namespace shardscope {

enum class BackwardPrefetch : std::uint8_t { none, pre, post };
enum class StateDict : std::uint8_t { full, sharded, local };

/// Which modules become units.
struct PortableWrap {
  WrapPolicy policy = WrapPolicy::none;
  /// transformer: class names; empty: those that the model declares (_no_split_modules).
  std::vector<std::string> classes;
  std::int64_t min_elements = 0;  ///< size
  bool operator==(const PortableWrap&) const = default;
};

enum class ConfigTool : std::uint8_t { accelerate, deepspeed };

/// A setting that only one tool knows: it stays in files of that tool and is lost in others.
struct OwnSetting {
  ConfigTool tool = ConfigTool::accelerate;
  std::string key;  ///< "zero_optimization.reduce_bucket_size"
  ConfigValue value;
  std::string why;  ///< why the others have no place for it; empty: nothing is lost without it
  bool operator==(const OwnSetting&) const = default;
};

struct PortableStrategy {
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  std::optional<std::int64_t> world;  ///< processes in all; absent: the launcher is told
  std::int64_t machines = 1;
  std::int64_t shard_group = 0;        ///< ranks of one sharding group of a hybrid; else 0
  std::string mixed_precision = "no";  ///< "no", "fp16", "bf16", "fp8"

  PortableWrap wrap;
  OffloadDevice offload_parameters = OffloadDevice::none;
  OffloadDevice offload_optimizer = OffloadDevice::none;
  bool activation_checkpointing = false;
  std::string ignored_modules;  ///< regular expression on module names; empty: none

  // FSDP1 only
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = false;
  bool use_original_parameters = true;
  bool sync_module_states = true;

  bool efficient_loading = true;  ///< only rank 0 reads the weights, the others receive theirs
  StateDict state_dict = StateDict::sharded;

  // DeepSpeed only; absent: left to the training script
  std::optional<std::int64_t> micro_batch;
  std::optional<std::int64_t> accumulation;
  std::optional<double> clip;
  bool quantized_weights = false;    ///< ZeRO++ qwZ
  bool quantized_gradients = false;  ///< ZeRO++ qgZ

  std::vector<OwnSetting> own;

  bool operator==(const PortableStrategy&) const = default;
};

}  // namespace shardscope

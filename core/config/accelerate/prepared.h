// What Accelerator.prepare hands on: to FullyShardedDataParallel, fully_shard,
// DistributedDataParallel or deepspeed.initialize.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/accelerate/fsdp_plugin.h"
#include "core/config/accelerate/parallelism.h"
#include "core/config/deepspeed/model_widths.h"
#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/plans/transformers_facts.h"

namespace shardscope::accelerate {

/// The model that is prepared.
struct PreparedModel {
  ModuleTree tree;
  TransformersFacts facts;
  ModelWidths widths;
};

/// One call of fully_shard; what all calls share stands in Prepared::fully_shard_shared.
struct FullyShardCall {
  std::vector<std::string> modules;  ///< "(root)" is the model
  /// Absent: torch's default, which keeps the root whole after forward.
  std::optional<bool> reshard_after_forward;
  bool operator==(const FullyShardCall&) const = default;
};

struct Prepared {
  std::string distributed_type;  ///< "FSDP", "MULTI_GPU", "DEEPSPEED"
  std::int64_t num_processes = 1;
  std::string mixed_precision;
  std::int64_t gradient_accumulation_steps = 1;
  std::optional<ParallelismConfig> parallelism;
  /// Names that carry a CheckpointWrapper, as named_modules() then lists them.
  std::vector<std::string> checkpointed_modules;
  std::optional<ConfigValue> fsdp1_kwargs;
  std::optional<ConfigValue> fully_shard_shared;
  std::vector<FullyShardCall> fully_shard_calls;
  std::optional<ConfigValue> ddp_kwargs;
  std::optional<ConfigValue> deepspeed_config;
  std::vector<std::string> warnings;
};

struct PrepareRequest {
  Environment environment;  ///< of a worker, as the launcher left it
  std::int64_t world = 1;
  std::vector<std::int64_t> loader_batch_sizes{4};  ///< of the data loaders, for DeepSpeed
  ReadFile read_file;
  bool has_nvidia_ml = true;  ///< as Machine says
};

/// Accelerator() and prepare(model, AdamW[, loaders]) as rank 0. Raises what they raise.
/// Source: accelerate 1.15.0 accelerator.py, state.py, utils/fsdp_utils.py.
Prepared prepare(const PrepareRequest& request, const PreparedModel& model);

}  // namespace shardscope::accelerate

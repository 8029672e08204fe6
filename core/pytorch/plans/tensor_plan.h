// transformers' own tensor parallelism: which module of a model is divided in which way. Source:
// transformers 5.24, base_model_tp_plan of models/*/configuration_*.py, _tp_plan of
// models/*/modeling_*.py; distributed/mixin.py (init_parallel_plans, _resolve_parallel_plans).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/pytorch/plans/fsdp2.h"

namespace shardscope {

/// ALL_PARALLEL_STYLES of distributed/tensor_parallel.py that are predicted.
enum class TensorStyle : std::uint8_t {
  colwise,
  colwise_gather_output,
  rowwise,
  embedding_rowwise,
  replicated_with_grad_allreduce,
};

struct TensorRule {
  std::string module;
  TensorStyle style = TensorStyle::colwise;
  bool operator==(const TensorRule&) const = default;
};

/// What from_pretrained(distributed_config=DistributedConfig(tp_size=...)) divides, in the order of
/// named_modules(). Throws Error where the family has no such plan, or one that is not predicted.
std::vector<TensorRule> tensor_plan_of(const Model& model);

/// A call of fully_shard that the model's own fsdp_plan makes; the root's, of "", is the last.
struct FullyShardedModules {
  std::vector<std::string> modules;
  ReshardAfterForward reshard_after_forward;
};
/// Source: distributed/fsdp.py, apply_fully_sharded_data_parallelism.
std::vector<FullyShardedModules> fsdp_plan_of(const Model& model);

}  // namespace shardscope

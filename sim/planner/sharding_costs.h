// What the bounds of every runtime's sharding are made of.
#pragma once

#include <cstdint>

#include "sim/planner/sharding_bounds.h"

namespace shardscope::planner {

/// So many ranks from rank 0 on, `stride` apart.
Group group_of(int stride, int size);

/// Parameters are gathered for each forward and again for each backward.
bool shards_parameters(ShardingStrategy sharding);

/// A choice with the groups, dtypes and numbers of elements that its collectives have.
struct ShardingCosts {
  ShardingCosts(const Choice& of, const TrialInputs& with);

  const Choice& choice;
  const TrialInputs& inputs;
  Group shards, replicas, world;
  Dtype dtype;
  Dtype gathered_dtype;  ///< of FSDP2; in float8 as if all were 8 bits: no less is gathered
  std::int64_t elements = 0, trainable = 0;

  ShardingPlan plan() const;
  Duration time(OperationKind kind, std::int64_t elements, Dtype dtype, const Group& group) const;
  Duration read_once(const ModelStates& states) const;
  /// Read once and written once: what a copy of so many elements takes at least.
  Duration copied(std::int64_t elements, Dtype dtype) const;
  /// Each further micro-batch adds its gradients to those there are: two read, one written.
  void keep_gradients(Dtype dtype, ShardingBounds& result) const;
};

ShardingBounds fsdp_bounds(const ShardingCosts& costs);
/// Of a model that is fine-tuned: its parameters, and what FSDP and stage 3 gather of them. Of
/// packed ones, gradients and the optimizer nothing is claimed.
ShardingBounds adapter_bounds(const ShardingCosts& costs);
ShardingBounds deepspeed_bounds(const ShardingCosts& costs);
/// FSDP2 over the ranks of shard x context, each with what an axis tensor leaves it of every
/// parameter: a unit for each block and one for the rest. Each micro-batch gathers and reduces.
ShardingBounds torchtitan_bounds(const ShardingCosts& costs);
/// FSDP2's units of torchtitan's mixtures (core/pytorch/parallel/mixture_training.cpp): experts
/// over efsdp, all else over the ranks of shard. The output layer is gathered once at least, all
/// others once more for the backward, and the embedding is the first and the last.
ShardingBounds mixture_bounds(const ShardingCosts& costs);

}  // namespace shardscope::planner

// The step of an optimizer after the last backward, as Megatron takes it.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Experts' parameters. Their gradients are reduced among the ranks that have the same experts:
/// every `rank_distance`-th.
struct ExpertUpdate {
  std::int64_t elements = 0;  ///< that the rank holds
  int data_ranks = 1, rank_distance = 1, shards = 1;
};

struct MegatronUpdate {
  std::int64_t elements = 0;  ///< of the parameters that the rank holds, without experts'
  std::int64_t tensors = 0;
  int data_ranks = 1;                  ///< that gradients are reduced over
  int rank_distance = 1;               ///< of neighbours among them
  int shards = 1;                      ///< ranks that share optimizer states
  Dtype reduced_in = Dtype::bfloat16;  ///< gradients
  /// With shards, too, each rank gets all sums: DeepSpeed's ZeRO-1.
  bool sums_everywhere = false;
  ExpertUpdate experts = {};
};

/// Gradients lie in one buffer and are reduced in one call. Then: a copy in float32 of each, one
/// launch a tensor; unscaling, norm, Adam and the copy back, of all tensors in one launch. With
/// shards each rank does this to its part, between a reduce-scatter and an all-gather. Experts'
/// gradients are in a buffer of their own, of their own ranks. A buffer in float32 is also
/// filled with zeros, and divided by the ranks (core/distributed/param_and_grad_buffer.py).
/// DeepSpeed's ZeRO-1 puts gradients into a buffer, divides it, sums it by an all-reduce, and
/// copies each gradient back, one launch a tensor; then it gathers parameters. Source: DeepSpeed
/// 0.6.5 runtime/engine.py (contiguous_gradients is ignored in stage 1),
/// runtime/zero/stage_1_and_2.py (reduce_ipg_grads, allreduce_bucket, allreduce_and_copy), and for
/// bfloat16 runtime/pipe/engine.py (_bf16_reduce_grads). Source of the rest: Megatron-LM 3.0
/// megatron/optimizer/optimizer.py (MixedPrecisionOptimizer.step), distrib_optimizer.py,
/// model/distributed.py (allreduce_gradients).
Duration megatron_update_time(const MegatronUpdate& update, const HardwareProfile& profile);
/// What of it is communication.
Duration megatron_exchange_time(const MegatronUpdate& update, const HardwareProfile& profile);

}  // namespace shardscope

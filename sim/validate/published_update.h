// The step of an optimizer after the last backward, as Megatron takes it.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

struct MegatronUpdate {
  std::int64_t elements = 0;  ///< of the parameters that the rank holds
  std::int64_t tensors = 0;
  int data_ranks = 1;                  ///< that gradients are reduced over
  int rank_distance = 1;               ///< of neighbours among them
  int shards = 1;                      ///< ranks that share optimizer states
  Dtype reduced_in = Dtype::bfloat16;  ///< gradients
};

/// Gradients lie in one buffer and are reduced in one call. Then: a copy in float32 of each, one
/// launch a tensor; unscaling, norm, Adam and the copy back, of all tensors in one launch. With
/// shards each rank does this to its part, between a reduce-scatter and an all-gather. Source:
/// Megatron-LM 3.0 megatron/optimizer/optimizer.py (MixedPrecisionOptimizer.step),
/// distrib_optimizer.py, model/distributed.py (allreduce_gradients).
Duration megatron_update_time(const MegatronUpdate& update, const HardwareProfile& profile);

}  // namespace shardscope

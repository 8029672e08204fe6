// Collectives of stacks that are no DeepSpeed, on a schedule that DeepSpeed's ZeRO-1 makes.
#pragma once

#include "core/schedule/schedule.h"

namespace shardscope {

/// Reductions go over all `world` ranks, where states are sharded over fewer: each group of these
/// ends with all gradients, by all-reduces.
void reduce_over(Schedule& schedule, int world);

/// Whole tensors belong to ranks, not equal parts: after the step each of `owners` ranks sends what
/// it has updated to all `world`, one after the other, in the place of one all-gather. Source:
/// InternEvo solver/optimizer/hybrid_zero_optim.py, _broadcast_params.
void broadcast_by_owner(Schedule& schedule, int owners, int world);

}  // namespace shardscope

// Parts of a divided training that follow from what one rank holds, alike for settings of
// Megatron-LM and for published runs.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/config/megatron/decoder_shape.h"
#include "sim/megatron/divided_training.h"
#include "sim/megatron/update.h"

namespace shardscope {

/// The update of what `training.played` holds, for a training that is played without one. Ranks of
/// tensor and expert parallelism and the world are the training's. `shards`: ranks that share
/// optimizer states; 1: each has all.
MegatronUpdate update_apart(const DividedTraining& training, const ExpertShape& experts, int shards,
                            Dtype reduced_in);

/// Whether Megatron's fused softmax takes scores of `batches` heads (of all sequences) and `length`
/// tokens. Source: Megatron-LM core/fusions/fused_softmax.py (is_kernel_available),
/// scaled_masked_softmax.h (get_batch_per_block: a block has four warps, and a warp has two rows
/// where rows are short).
bool takes_fused_softmax(std::int64_t batches, std::int64_t length);

/// Attention as products and a softmax, which is fused where Megatron's kernel takes it. `training`
/// has loop and kernels already. `heads`: of a rank.
void attend_by_products(DividedTraining& training, std::int64_t heads);

}  // namespace shardscope

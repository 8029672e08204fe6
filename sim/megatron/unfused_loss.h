// The cross entropy of Megatron-DeepSpeed, whose operators run one after the other.
#pragma once

#include "core/schedule/schedule.h"

namespace shardscope {

/// The steady step with what PyTorch's operators move beside a fused cross entropy in float32, a
/// logit: 24 bytes behind the loss (maximum 4, subtraction 8, exponentials 8, their sum 4, division
/// 8, less the 8 that a fused one moves) and 8 before the head's backward (the softmax by the
/// loss's gradient). Source: Megatron-DeepSpeed megatron/mpu/cross_entropy.py. Example: 10 tokens,
/// 30 logits each: 7,200 and 2,400 bytes.
Schedule with_unfused_loss(Schedule schedule);

}  // namespace shardscope

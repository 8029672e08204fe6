// Losses.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.cross_entropy of logits (N, C) and class indices (N), the mean of them.
Tensor cross_entropy(Session& s, Tensor logits, Tensor target);
/// torch.nn.functional.mse_loss, the mean.
Tensor mse_loss(Session& s, Tensor input, Tensor target);
/// torch.nn.functional.binary_cross_entropy_with_logits, the mean.
Tensor binary_cross_entropy_with_logits(Session& s, Tensor logits, Tensor target);

}  // namespace shardscope::eager

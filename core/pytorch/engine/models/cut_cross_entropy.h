// The loss of cut-cross-entropy, which never has the logits in memory.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// linear_cross_entropy(hidden, weight, labels, shift=True), the mean: hidden states (B, T, H),
/// weight (V, H), labels (B, T), of which none is ignored. Refusal for hidden states in float32,
/// which its backward does not take. Source: cut_cross_entropy 25.1.1 of PyPI, cce.py and
/// what it calls. Apple's repository at 18e76ad has other locks and refuses weights in float32.
Tensor cut_cross_entropy(Session& s, const Tensor& hidden, const Tensor& weight,
                         const Tensor& labels);

}  // namespace shardscope::eager

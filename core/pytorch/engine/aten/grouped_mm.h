// Products of many matrices with one launch, for experts.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.grouped_mm: rows of `self` (S, K), of the groups that end at `offsets`, by
/// `other` (G, K, N); not on autocast's lists. Error where rows are no multiples of 16 bytes.
Tensor grouped_mm(Session& s, Tensor self, Tensor other, Tensor offsets);

}  // namespace shardscope::eager

// Softmax and its logarithm.
#pragma once

#include <optional>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.softmax(self, dim, dtype=dtype). Runs in float32 under autocast on cuda.
Tensor softmax(Session& s, Tensor self, int dim, std::optional<Dtype> dtype = {});
/// torch.nn.functional.log_softmax.
Tensor log_softmax(Session& s, Tensor self, int dim, std::optional<Dtype> dtype = {});
/// aten._safe_softmax over the last dimension: rows that are masked out become zeros.
Tensor safe_softmax(Session& s, Tensor self);

}  // namespace shardscope::eager

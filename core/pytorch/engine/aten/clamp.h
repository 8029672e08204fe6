// Tensor.clamp with one bound; pointwise.h has that with two.
#pragma once

#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// Tensor.clamp(max=number).
Tensor clamp_max(Session& s, Tensor self);

}  // namespace shardscope::eager

// Layer normalisation, as one operator of its own.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.layer_norm over the last dimensions, as many as `weight` has; `bias` may be
/// None. Runs in float32 under autocast on cuda.
Tensor layer_norm(Session& s, Tensor input, Tensor weight, Tensor bias = {});
/// torch.nn.functional.rms_norm over the last dimension, of a weight in the input's dtype: one
/// kernel on cuda, aten._fused_rms_norm.
Tensor rms_norm(Session& s, Tensor input, Tensor weight);

}  // namespace shardscope::eager

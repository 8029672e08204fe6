// Backwards of views that are operators of their own, and what views refuse.
#pragma once

#include <string_view>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/dims.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// Zeros of the whole, the gradient of the part in it: one operator each.
Tensor select_backward(Session& s, Tensor gradient, const Dims& sizes);
Tensor slice_backward(Session& s, Tensor gradient, const Dims& sizes);

[[noreturn]] void refuse_view(const Tensor& tensor, const Dims& sizes);
/// A gradient that is not modelled.
[[noreturn]] void refuse_gradient(std::string_view what);

}  // namespace shardscope::eager

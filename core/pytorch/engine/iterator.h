// TensorIterator: shape, dtype and strides of the output of an elementwise operator.
#pragma once

#include <span>

#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

struct IteratorOutput {
  Dims sizes;
  Dims strides;
};

/// aten/src/ATen/TensorIterator.cpp: compute_shape, compute_fast_setup_type, reorder_dimensions.
/// A number is an operand without dimensions.
IteratorOutput iterate(std::span<const Tensor* const> operands, bool with_number = false);

/// The output of an elementwise operator, allocated: on the first cuda operand's device if any.
Tensor allocate_output(Session& s, TensorPointers operands, Dtype dtype, bool with_number = false);

/// c10::promoteTypes.
Dtype promote(Dtype a, Dtype b);
bool is_floating(Dtype dtype);
/// What integers become in a true division, a mean, a square root: float32.
Dtype to_floating(Dtype dtype);

}  // namespace shardscope::eager

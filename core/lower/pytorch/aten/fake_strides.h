// Strides of the output of an elementwise operator on fake tensors, which go by Python's
// references.
#pragma once

#include <span>

#include "core/lower/pytorch/tensor.h"

namespace shardscope::eager {

/// torch._prims_common.compute_elementwise_output_strides of the operands as
/// elementwise_type_promotion_wrapper converts them: what is not of the computation's dtype
/// (float32 for the halves) is first copied to it.
Dims fake_output_strides(std::span<const Tensor* const> operands, const Dims& sizes);

}  // namespace shardscope::eager

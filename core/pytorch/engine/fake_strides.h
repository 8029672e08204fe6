// Strides of what operators on fake tensors return, which go by Python's references.
#pragma once

#include <span>

#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// Of an elementwise operator's output: torch._prims_common.compute_elementwise_output_strides of
/// the operands as elementwise_type_promotion_wrapper converts them. What is not of the
/// computation's dtype (float32 for the halves) is first copied to it.
Dims fake_output_strides(std::span<const Tensor* const> operands, const Dims& sizes);
/// Of torch._refs.empty_like, on which kernels call for their outputs.
Dims fake_like_strides(const Tensor& tensor);

}  // namespace shardscope::eager

// Scaled dot product attention: fused kernels and the written-out one.
#pragma once

#include "core/pytorch/engine/aten/attention_choice.h"
#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.scaled_dot_product_attention. Runs in the lower precision under autocast.
Tensor scaled_dot_product_attention(Session& s, AttentionArguments arguments);

// Its parts. Source: PyTorch 2.15, ATen/native/transformers/attention.cpp, cuda/attention.cu and
// torch/_meta_registrations.py (shapes and strides of what the kernels return).

/// On cuda. `debug_mask` is an empty tensor that the kernel returns besides.
Tensor flash_attention(Session& s, const AttentionArguments& arguments, Tensor& debug_mask);
Tensor efficient_attention(Session& s, const AttentionArguments& arguments);
Tensor cudnn_attention(Session& s, const AttentionArguments& arguments);
Tensor flash_attention_for_cpu(Session& s, const AttentionArguments& arguments);
/// _scaled_dot_product_attention_math.
Tensor math_attention(Session& s, const AttentionArguments& arguments);

/// A bool mask as zeros and minus infinities of `dtype`; another one, or None, as it is.
Tensor additive_mask(Session& s, const Tensor& mask, Dtype dtype);

}  // namespace shardscope::eager

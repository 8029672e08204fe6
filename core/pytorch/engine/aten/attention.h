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

/// What flash_attention or efficient_attention returned, for who keeps it himself.
struct FusedAttention {
  Tensor output;
  Tensor logsumexp;
  Tensors rest;  ///< the random state
};
/// One of these two kernels without autograd: what others build attention of. `arguments` of
/// backward are those of forward.
FusedAttention fused_attention(Session& s, AttentionKernel kernel,
                               const AttentionArguments& arguments);
/// Gradients of query, key and value.
Tensors fused_attention_backward(Session& s, AttentionKernel kernel, const Tensor& gradient,
                                 const AttentionArguments& arguments,
                                 const FusedAttention& forward);

/// A bool mask as zeros and minus infinities of `dtype`; another one, or None, as it is.
Tensor additive_mask(Session& s, const Tensor& mask, Dtype dtype);

}  // namespace shardscope::eager

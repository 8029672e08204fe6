// Unsloth's kernels for norms, rotary embeddings and losses. Source: unsloth and unsloth_zoo
// 2026.8.11, kernels/*.py and fused_losses/cross_entropy_loss.py.
#pragma once

#include "core/base/quantities.h"
#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// x.reshape(-1, x.shape[-1]).
Tensor as_rows(Session& s, const Tensor& tensor);

/// Fast_RMS_Layernorm: keeps the input and one number a row. The gradient is overwritten.
Tensor unsloth_rms_norm(Session& s, const Tensor& input, const Tensor& weight);

/// Fast_RoPE_Embedding, in place: states (B, T, H, D), cos and sin (positions, D).
Tensor unsloth_rotary(Session& s, const Tensor& states, const Tensor& cos, const Tensor& sin);

/// SwiGLU's kernels: silu(gate) * up as a new tensor.
Tensor unsloth_swiglu(Session& s, const Tensor& gate, const Tensor& up);
/// `gradient` becomes the product, `gate` the gradient of up, `up` that of gate.
void unsloth_swiglu_backward(Session& s, const Tensor& gradient, const Tensor& gate,
                             const Tensor& up);

/// Into how many parts get_chunk_size cuts `tokens` tokens: as many as it takes for the float32
/// logits of a part to fit in `target`, in multiples of 4. Example: 4,096 tokens of 128,256
/// classes are 1.96 GiB; of 1 GiB that makes 4 parts.
std::int64_t unsloth_loss_parts(std::int64_t tokens, std::int64_t classes, Bytes target);

/// UnslothFusedLoss: hidden states (B, T, H), weight (V, H), labels (B, T). The gradients are made
/// in forward, part by part. A part has its logits and their gradient in the weight's dtype.
Tensor unsloth_fused_loss(Session& s, const Tensor& hidden, const Tensor& weight,
                          const Tensor& labels, Bytes target);

/// Fast_CrossEntropyLoss of unsloth 2024.5: whole logits (B, T, V), labels (B, T). The backward
/// overwrites the logits with their gradient.
Tensor unsloth_whole_loss(Session& s, const Tensor& logits, const Tensor& labels);

}  // namespace shardscope::eager

// Liger Kernel's fused operators, which take the place of transformers' own.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// Which of a model's parts run in Liger's kernels. Source of what they keep and take: liger_kernel
/// 0.8.5, ops/*.py.
struct LigerKernels {
  bool rope = false;
  bool rms_norm = false;
  bool swiglu = false;
  /// The head's product and the loss at once: no logits in training.
  bool fused_linear_cross_entropy = false;
  bool any() const { return rope || rms_norm || swiglu || fused_linear_cross_entropy; }
};
/// What apply_liger_kernel_to_* turns on by itself, as the Trainer's use_liger_kernel does.
inline constexpr LigerKernels all_liger_kernels{true, true, true, true};

/// What becomes of a family: its patches are known here (all of them are those of Llama); Liger has
/// patches that are not known here; or it has none, and leaves the model as it is.
enum class LigerSupport : std::uint8_t { known, unknown, none };
LigerSupport liger_support(std::string_view model_type);

/// LigerRMSNormFunction: keeps the input and one number a row; the gradient is overwritten.
Tensor liger_rms_norm(Session& s, const Tensor& input, const Tensor& weight);
/// LigerSiLUMulFunction: keeps both, and overwrites them with their gradients.
Tensor liger_silu_mul(Session& s, const Tensor& gate, const Tensor& up);
/// LigerRopeFunction, in place: query and key (B, H, T, D), cos and sin (B, T, D).
std::pair<Tensor, Tensor> liger_rotary(Session& s, const Tensor& query, const Tensor& key,
                                       const Tensor& cos, const Tensor& sin);
/// LigerFusedLinearCrossEntropyFunction, the mean: hidden states (B T, H), weight (V, H), target
/// (B T). The gradients are made in forward, chunk by chunk of as many tokens as the logits may
/// have memory for.
Tensor liger_fused_linear_cross_entropy(Session& s, const Tensor& hidden, const Tensor& weight,
                                        const Tensor& target);

}  // namespace shardscope::eager

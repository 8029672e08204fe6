// One struct an operator kind: what a call of it is, with the fields that this kind needs and no
// others.
//
// Operands stand in a fixed order per kind; one that a call does not need is absent (a null pointer
// at the device). [..] is the shape, row-major, of the kernel's `dtype` unless said otherwise.
// R = `rows`, C = `width`, V = `vocabulary` or `classes`, F = `features`, H/K = `heads`/`kv_heads`,
// D = `head_dim`, T = `length`, B = `batch`; rows = batch * length where a kind has all three.
// "acc" = added to what is there when the kernel's `accumulate` is set, else overwritten. The last
// operand of every kind is `workspace` (bytes as the device asks for).
//
// Element types: `dtype` is float32 or bfloat16; gradients of parameters (dwte, dweight, dbias, g)
// are of `gradient_dtype`, which is `dtype` or float32. Statistics (mean, rstd, lse), the rotary
// table, what is summed and every intermediate value are float32 (losses and norms float64),
// whatever the dtype: a kernel rounds what it stores, once (embedding_backward: once a token).
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/model/model.h"
#include "core/schedule/kernel_kind.h"

namespace shardscope {

/// In tokens int32[R], wte[V,C], wpe[P,C]?; out x[R,C].
struct EmbeddingForwardKernel {
  static constexpr KernelKind kind = KernelKind::embedding_forward;
  Dtype dtype = Dtype::float32;
  std::int64_t rows = 0, width = 0, vocabulary = 0;
  std::int64_t batch = 0, length = 0;
  std::int64_t positions = 0;  ///< P, 0 without wpe
  bool operator==(const EmbeddingForwardKernel&) const = default;
};

/// In tokens, dx[R,C]; out acc dwte[V,C]?, acc dwpe[P,C]? (rows of no token become 0 when not
/// accumulating).
struct EmbeddingBackwardKernel {
  static constexpr KernelKind kind = KernelKind::embedding_backward;
  Dtype dtype = Dtype::float32;
  Dtype gradient_dtype = Dtype::float32;
  bool accumulate = false;
  std::int64_t rows = 0, width = 0, vocabulary = 0;
  std::int64_t batch = 0, length = 0;
  std::int64_t positions = 0;  ///< P, 0 without wpe
  bool operator==(const EmbeddingBackwardKernel&) const = default;
};

/// In x[R,C], weight[C], bias[C]?; out y[R,C], float32 mean[R]? (layer norm only), rstd[R].
struct NormForwardKernel {
  static constexpr KernelKind kind = KernelKind::norm_forward;
  NormKind norm = NormKind::layer_norm;
  Dtype dtype = Dtype::float32;
  bool has_bias = false;
  std::int64_t rows = 0, width = 0;
  double epsilon = 0;
  bool operator==(const NormForwardKernel&) const = default;
};

/// In dy[R,C], x[R,C], weight[C], mean[R]?, rstd[R]; out dx[R,C]? (added when `accumulate_input`),
/// acc dweight[C]?, acc dbias[C]?.
struct NormBackwardKernel {
  static constexpr KernelKind kind = KernelKind::norm_backward;
  NormKind norm = NormKind::layer_norm;
  Dtype dtype = Dtype::float32;
  Dtype gradient_dtype = Dtype::float32;
  bool accumulate = false;
  bool accumulate_input = false;
  bool has_bias = false;            ///< dbias is wanted
  bool has_weight_gradient = true;  ///< dweight is wanted
  std::int64_t rows = 0, width = 0;
  bool operator==(const NormBackwardKernel&) const = default;
};

/// In x[R,in], weight, bias[out]?, residual[R,out]?; out y[R,out] = x W (+ bias) (+ residual);
/// residual may be y itself. With `has_gelu` one more: out y = gelu_tanh(h), out h[R,out] = x W
/// (+ bias); y is of the h that was not yet rounded.
struct LinearForwardKernel {
  static constexpr KernelKind kind = KernelKind::linear_forward;
  WeightLayout layout = WeightLayout::out_in;
  Dtype dtype = Dtype::float32;
  bool has_bias = false;
  bool has_residual = false;
  bool has_gelu = false;
  std::int64_t rows = 0, in = 0, out = 0;
  /// Elements between rows of y; 0: `out`, no gaps. What lies in a gap is neither read nor written.
  std::int64_t out_stride = 0;

  std::int64_t out_row() const { return out_stride > 0 ? out_stride : out; }
  bool operator==(const LinearForwardKernel&) const = default;
};

/// In dy[R,out], weight; out dx[R,in] (added when `accumulate_input`). With `has_gelu` one more: in
/// h[R,in]; dx is times the derivative of gelu_tanh at h.
struct LinearBackwardInputKernel {
  static constexpr KernelKind kind = KernelKind::linear_backward_input;
  WeightLayout layout = WeightLayout::out_in;
  Dtype dtype = Dtype::float32;
  bool accumulate_input = false;
  bool has_gelu = false;
  std::int64_t rows = 0, in = 0, out = 0;
  std::int64_t out_stride = 0;  ///< of dy, see LinearForwardKernel

  std::int64_t out_row() const { return out_stride > 0 ? out_stride : out; }
  bool operator==(const LinearBackwardInputKernel&) const = default;
};

/// In x[R,in], dy[R,out]; out acc dweight?, acc dbias[out]?.
struct LinearBackwardWeightKernel {
  static constexpr KernelKind kind = KernelKind::linear_backward_weight;
  WeightLayout layout = WeightLayout::out_in;
  Dtype dtype = Dtype::float32;
  Dtype gradient_dtype = Dtype::float32;
  bool accumulate = false;
  bool has_bias = false;            ///< dbias is wanted
  bool has_weight_gradient = true;  ///< dweight is wanted
  std::int64_t rows = 0, in = 0, out = 0;
  std::int64_t out_stride = 0;  ///< of dy, see LinearForwardKernel

  std::int64_t out_row() const { return out_stride > 0 ? out_stride : out; }
  bool operator==(const LinearBackwardWeightKernel&) const = default;
};

/// Out table[T,D] of float32: row t holds cos(t f_i), i < D/2, then sin(t f_i).
struct RopeTableKernel {
  static constexpr KernelKind kind = KernelKind::rope_table;
  std::int64_t length = 0, head_dim = 0;
  Rope rope;
  bool operator==(const RopeTableKernel&) const = default;
};

/// Shape of a rotation of q (H heads) and k (K heads).
struct RopeKernel {
  Dtype dtype = Dtype::float32;
  std::int64_t rows = 0, batch = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t q_stride = 0, kv_stride = 0;  ///< elements between rows of q and of k
  bool operator==(const RopeKernel&) const = default;
};

/// In table[T,D]; in-out q, k.
struct RopeForwardKernel : RopeKernel {
  static constexpr KernelKind kind = KernelKind::rope_forward;
  bool operator==(const RopeForwardKernel&) const = default;
};

/// In table[T,D]; in-out dq, dk: the inverse rotation.
struct RopeBackwardKernel : RopeKernel {
  static constexpr KernelKind kind = KernelKind::rope_backward;
  bool operator==(const RopeBackwardKernel&) const = default;
};

/// Shape of causal attention of H query heads to K heads of keys and values.
struct AttentionKernel {
  Dtype dtype = Dtype::float32;
  std::int64_t rows = 0, batch = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Elements between rows of q and of k, v (fused QKV: 3C).
  std::int64_t q_stride = 0, kv_stride = 0;
  double scale = 1;  ///< of the products of queries and keys
  bool operator==(const AttentionKernel&) const = default;
};

/// In q, k, v; out y[R,H*D], lse[B,H,T] (log of the sum of exponentials).
struct AttentionForwardKernel : AttentionKernel {
  static constexpr KernelKind kind = KernelKind::attention_forward;
  bool operator==(const AttentionForwardKernel&) const = default;
};

/// In dy[R,H*D], q, k, v, y, lse; out dq, dk, dv (overwritten; strides as q, k, v).
struct AttentionBackwardKernel : AttentionKernel {
  static constexpr KernelKind kind = KernelKind::attention_backward;
  bool operator==(const AttentionBackwardKernel&) const = default;
};

/// Shape of an activation function.
struct ActivationKernel {
  Dtype dtype = Dtype::float32;
  std::int64_t rows = 0, features = 0;
  bool operator==(const ActivationKernel&) const = default;
};

/// In h[R,F]; out y[R,F] = gelu_tanh(h).
struct GeluForwardKernel : ActivationKernel {
  static constexpr KernelKind kind = KernelKind::gelu_forward;
  bool operator==(const GeluForwardKernel&) const = default;
};

/// In h[R,F]; in-out dy[R,F] becomes dh.
struct GeluBackwardKernel : ActivationKernel {
  static constexpr KernelKind kind = KernelKind::gelu_backward;
  bool operator==(const GeluBackwardKernel&) const = default;
};

/// In gate[R,F], up[R,F]; out y[R,F] = silu(gate) * up.
struct SwigluForwardKernel : ActivationKernel {
  static constexpr KernelKind kind = KernelKind::swiglu_forward;
  bool operator==(const SwigluForwardKernel&) const = default;
};

/// In dy[R,F]; in-out gate, up become dgate, dup.
struct SwigluBackwardKernel : ActivationKernel {
  static constexpr KernelKind kind = KernelKind::swiglu_backward;
  bool operator==(const SwigluBackwardKernel&) const = default;
};

/// In targets int32[R] (-100: ignored); in-out logits[R,V] become their gradient times `scale` /
/// counted; in-out loss float64[1] += `scale` * sum of row losses / counted; in counted float64[1]?
/// (without `has_count` the rows of this call that are not ignored).
struct CrossEntropyKernel {
  static constexpr KernelKind kind = KernelKind::cross_entropy;
  Dtype dtype = Dtype::float32;
  bool has_count = false;
  std::int64_t rows = 0, classes = 0;
  /// Elements between rows of logits; 0: `classes`, no gaps, see LinearForwardKernel.
  std::int64_t logits_stride = 0;
  double scale = 1;  ///< 1 / (accumulation * data-parallel ranks)

  std::int64_t logits_row() const { return logits_stride > 0 ? logits_stride : classes; }
  bool operator==(const CrossEntropyKernel&) const = default;
};

/// In targets int32[R]; out counted float64[1]: rows that are not ignored.
struct CountTargetsKernel {
  static constexpr KernelKind kind = KernelKind::count_targets;
  Dtype dtype = Dtype::float32;  ///< of the logits to come; profiles keep rates by it
  std::int64_t rows = 0;
  bool operator==(const CountTargetsKernel&) const = default;
};

/// In g (slices); out pieces float64: sum of squares of each 256-element piece of each slice, at
/// its `piece`.
struct SumOfSquaresKernel {
  static constexpr KernelKind kind = KernelKind::sum_of_squares;
  Dtype gradient_dtype = Dtype::float32;
  std::int64_t elements = 0;  ///< sum over slices
  bool operator==(const SumOfSquaresKernel&) const = default;
};

/// In pieces float64[n] (slices, in the order of summation: each slice's pieces, one after the
/// other, into one running sum); out clip float64[2] = {norm, min(1, `clip` / (norm + 1e-6)) or 1
/// without a limit}.
struct ClipCoefficientKernel {
  static constexpr KernelKind kind = KernelKind::clip_coefficient;
  bool has_clip = false;  ///< a limit was given
  std::int64_t pieces = 0;
  double clip = 0;  ///< the largest norm
  bool operator==(const ClipCoefficientKernel&) const = default;
};

/// In clip float64[2]?, g (slices); in-out p, m, v (slices); out copy bfloat16 (slices)?: AdamW,
/// decoupled decay where a slice has `decay`. The copy is p rounded, where `has_copy`.
struct AdamWKernel {
  static constexpr KernelKind kind = KernelKind::adamw;
  Dtype dtype = Dtype::float32;  ///< of p and its states
  Dtype gradient_dtype = Dtype::float32;
  bool has_clip = false;      ///< a limit was given
  bool has_copy = false;      ///< p is float32 and also wanted in bfloat16
  std::int64_t elements = 0;  ///< sum over slices
  double epsilon = 0;
  double beta1 = 0, beta2 = 0;
  double weight_decay = 0;
  double rate = 1;  ///< times the step's learning rate
  bool operator==(const AdamWKernel&) const = default;
};

/// In clip float64[2]?, g (slices); in-out p, momentum buffer? (slices); out copy bfloat16
/// (slices)?: torch.optim.SGD.
struct SgdKernel {
  static constexpr KernelKind kind = KernelKind::sgd;
  Dtype dtype = Dtype::float32;  ///< of p and its state
  Dtype gradient_dtype = Dtype::float32;
  bool nesterov = false;
  bool has_clip = false;      ///< a limit was given
  bool has_copy = false;      ///< p is float32 and also wanted in bfloat16
  std::int64_t elements = 0;  ///< sum over slices
  double momentum = 0;
  double weight_decay = 0;
  double rate = 1;  ///< times the step's learning rate
  bool operator==(const SgdKernel&) const = default;
};

/// In a; in-out b += a, `elements` of `dtype`.
struct AddKernel {
  static constexpr KernelKind kind = KernelKind::add;
  Dtype dtype = Dtype::float32;
  std::int64_t elements = 0;
  bool operator==(const AddKernel&) const = default;
};

/// Out a: zeros, `elements` of `dtype`.
struct FillZeroKernel {
  static constexpr KernelKind kind = KernelKind::fill_zero;
  Dtype dtype = Dtype::float32;
  std::int64_t elements = 0;
  bool operator==(const FillZeroKernel&) const = default;
};

}  // namespace shardscope

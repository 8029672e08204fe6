// The operators of the `native` implementation: what a device can be asked to run, with the cost of
// each.
//
// Operands stand in a fixed order per kind (see `KernelKind`); one that a call does not need is
// absent (a null pointer at the device). [..] is the shape, row-major, of the kernel's `dtype`
// unless said otherwise. R = batch * length rows, C = width, V = vocabulary, H/K = query/key-value
// heads, D = head_dim, T = length, B = batch. "acc" = added to what is there when the kernel's
// `accumulate` is set, else overwritten. The last operand of every kind is `workspace` (bytes as
// the device asks for).
//
// Element types: `dtype` is float32 or bfloat16; gradients of parameters (dwte, dweight, dbias, g)
// are of `gradient_dtype`, which is `dtype` or float32. Statistics (mean, rstd, lse), the rotary
// table, what is summed and every intermediate value are float32 (losses and norms float64),
// whatever the dtype: a kernel rounds what it stores, once (embedding_backward: once a token).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/model/model.h"

namespace shardscope {

enum class KernelKind : std::uint8_t {
  /// in tokens int32[R], wte[V,C], wpe[P,C]?; out x[R,C]
  embedding_forward,
  /// in tokens, dx[R,C]; out acc dwte[V,C]?, acc dwpe[P,C]? (rows of no token become 0 when not
  /// accumulating)
  embedding_backward,
  /// in x[R,C], weight[C], bias[C]?; out y[R,C], float32 mean[R]? (layer norm only), rstd[R]
  norm_forward,
  /// in dy[R,C], x[R,C], weight[C], mean[R]?, rstd[R]; out dx[R,C]? (added when
  /// `accumulate_input`), acc dweight[C]?, acc dbias[C]?
  norm_backward,
  /// in x[R,in], weight, bias[out]?, residual[R,out]?; out y[R,out] = x W (+ bias) (+ residual);
  /// residual may be y itself. With `has_gelu` one more: out y = gelu_tanh(h), out h[R,out] =
  /// x W (+ bias); y is of the h that was not yet rounded
  linear_forward,
  /// in dy[R,out], weight; out dx[R,in] (added when `accumulate_input`). With `has_gelu` one more:
  /// in h[R,in]; dx is times the derivative of gelu_tanh at h
  linear_backward_input,
  /// in x[R,in], dy[R,out]; out acc dweight?, acc dbias[out]?
  linear_backward_weight,
  /// out table[T,D]: row t holds cos(t f_i), i < D/2, then sin(t f_i)
  rope_table,
  /// in table[T,D]; in-out q (H heads), k (K heads)
  rope_forward,
  /// in table[T,D]; in-out dq, dk: the inverse rotation
  rope_backward,
  /// in q, k, v; out y[R,H*D], lse[B,H,T] (log of the sum of exponentials); causal
  attention_forward,
  /// in dy[R,H*D], q, k, v, y, lse; out dq, dk, dv (overwritten; strides as q, k, v)
  attention_backward,
  /// in h[R,F]; out y[R,F] = gelu_tanh(h)
  gelu_forward,
  /// in h[R,F]; in-out dy[R,F] becomes dh
  gelu_backward,
  /// in gate[R,F], up[R,F]; out y[R,F] = silu(gate) * up
  swiglu_forward,
  /// in dy[R,F]; in-out gate, up become dgate, dup
  swiglu_backward,
  /// in targets int32[R] (-100: ignored); in-out logits[R,V] become their gradient times `scale` /
  /// counted; in-out loss float64[1] += `scale` * sum of row losses / counted; in counted
  /// float64[1]? (without `has_count` the rows of this call that are not ignored)
  cross_entropy,
  /// in targets int32[R]; out counted float64[1]: rows that are not ignored
  count_targets,
  /// in g (slices); out pieces float64: sum of squares of each 256-element piece of each slice, at
  /// its `piece`
  sum_of_squares,
  /// in pieces float64[n] (slices, in the order of summation: each slice's pieces, one after the
  /// other, into one running
  /// sum); out clip float64[2] = {norm, min(1, `clip` / (norm + 1e-6)) or 1 without a limit}
  clip_coefficient,
  /// in clip float64[2]?, g (slices); in-out p, m, v (slices); out copy bfloat16 (slices)?: AdamW,
  /// decoupled decay where a slice has `decay`. The copy is p rounded, where `has_copy`
  adamw,
  /// in clip float64[2]?, g (slices); in-out p, momentum? (slices); out copy bfloat16 (slices)?:
  /// torch.optim.SGD
  sgd,
  /// in a; in-out b += a, `elements` of `dtype`
  add,
  /// out a: zeros, `elements` of `dtype`
  fill_zero,
};
inline constexpr int kernel_kind_count = static_cast<int>(KernelKind::fill_zero) + 1;

std::string_view name_of(KernelKind kind);  ///< "linear_backward_weight"

/// One kernel call's static description; equal descriptions cost the same. Unused fields stay 0.
struct Kernel {
  KernelKind kind = KernelKind::fill_zero;
  WeightLayout layout = WeightLayout::out_in;
  NormKind norm = NormKind::layer_norm;
  Dtype dtype = Dtype::float32;           ///< adamw, sgd: of p and its states
  Dtype gradient_dtype = Dtype::float32;  ///< of parameter gradients
  bool accumulate = false;                ///< parameter gradients are added to
  bool accumulate_input = false;          ///< the input gradient is added to
  bool has_bias = false;                  ///< linear, norm: bias (or its gradient) present
  bool has_weight_gradient = true;
  bool has_residual = false;
  bool has_gelu = false;   ///< linear_forward, linear_backward_input
  bool has_count = false;  ///< cross_entropy: the count of targets is given
  bool nesterov = false;
  bool has_clip = false;  ///< a limit was given
  bool has_copy = false;  ///< adamw, sgd: p is float32 and also wanted in bfloat16
  std::int64_t rows = 0;  ///< R
  std::int64_t in = 0;    ///< linear: in; norm, embedding: C; gelu, swiglu: F
  std::int64_t out = 0;   ///< linear: out; cross_entropy, embedding: V
  std::int64_t batch = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Elements between rows of q and of k, v (fused QKV: 3C).
  std::int64_t q_stride = 0, kv_stride = 0;
  /// linear, cross_entropy: elements between rows of y, dy or logits; 0: `out`, no gaps. What lies
  /// in a gap is neither read nor written.
  std::int64_t out_stride = 0;
  /// add, fill_zero: elements; clip_coefficient: pieces; sum_of_squares, adamw, sgd: sum over
  /// slices.
  std::int64_t elements = 0;
  std::int64_t positions = 0;  ///< embedding: rows of wpe, 0 without
  double epsilon = 0;
  double scale = 1;  ///< attention scale; cross_entropy: 1 / (accumulation * data-parallel ranks)
  double beta1 = 0, beta2 = 0;  ///< adamw; sgd: beta1 is the momentum
  double weight_decay = 0;
  double clip = 0;  ///< clip_coefficient: the largest norm
  Rope rope;        ///< rope_table

  std::int64_t out_row() const { return out_stride > 0 ? out_stride : out; }
  bool operator==(const Kernel&) const = default;
};

/// Part of one parameter inside a rank's shard, for optimizer kernels. Starts lie on multiples of
/// 256 elements of the parameter, so that the pieces of the gradient norm are the same in every
/// sharding.
struct Slice {
  ParameterId parameter;
  std::int64_t offset = 0;  ///< elements from the start of the operand
  std::int64_t elements = 0;
  std::int64_t parameter_offset = 0;  ///< elements from the start of the parameter
  std::int64_t piece = 0;             ///< index of the slice's first piece in `pieces`
  bool decay = false;                 ///< weight decay applies
  /// clip_coefficient: pieces lie in runs of `piece_run`, `piece_stride` apart (one run a rank); 0:
  /// one run. Then `piece` is where the unit's first run starts, and `offset` counts from the start
  /// of the unit's flat storage.
  std::int64_t piece_run = 0;
  std::int64_t piece_stride = 0;

  /// Index of this slice's i-th piece.
  std::int64_t piece_index(std::int64_t i) const;
  bool operator==(const Slice&) const = default;
};
inline constexpr std::int64_t piece_elements = 256;

inline std::int64_t Slice::piece_index(std::int64_t i) const {
  if (piece_run == 0) return piece + i;
  const std::int64_t in_unit = offset / piece_elements + i;
  return piece + in_unit / piece_run * piece_stride + in_unit % piece_run;
}

/// What changes from step to step.
struct StepState {
  double learning_rate = 0;
  std::int64_t step = 1;  ///< AdamW's t, from 1
};

/// Floating-point operations of one call: 2 m n k for matrix products; attention counts the causal
/// half; others by element.
Flops flops_of(const Kernel& kernel);
/// Bytes that one call must read and write at least (every operand once).
Bytes bytes_of(const Kernel& kernel);

}  // namespace shardscope

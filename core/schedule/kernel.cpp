#include "core/schedule/kernel.h"

#include "core/base/dtype.h"

namespace shardscope {
namespace {

constexpr std::array<std::string_view, kernel_kind_count> kernel_names{"embedding_forward",
                                                                       "embedding_backward",
                                                                       "norm_forward",
                                                                       "norm_backward",
                                                                       "linear_forward",
                                                                       "linear_backward_input",
                                                                       "linear_backward_weight",
                                                                       "rope_table",
                                                                       "rope_forward",
                                                                       "rope_backward",
                                                                       "attention_forward",
                                                                       "attention_backward",
                                                                       "gelu_forward",
                                                                       "gelu_backward",
                                                                       "swiglu_forward",
                                                                       "swiglu_backward",
                                                                       "cross_entropy",
                                                                       "count_targets",
                                                                       "sum_of_squares",
                                                                       "clip_coefficient",
                                                                       "adamw",
                                                                       "sgd",
                                                                       "add",
                                                                       "fill_zero"};

std::int64_t q_elements(const Kernel& k) { return k.rows * k.heads * k.head_dim; }
std::int64_t kv_elements(const Kernel& k) { return k.rows * k.kv_heads * k.head_dim; }

/// Query-key pairs that a causal mask leaves: T (T + 1) / 2 a head and sequence.
std::int64_t causal_pairs(const Kernel& k) {
  return k.batch * k.heads * (k.length * (k.length + 1) / 2);
}

/// Of one element.
constexpr std::int64_t gelu_flops = 9;
constexpr std::int64_t gelu_backward_flops = 14;

/// What one call reads and writes, by element type.
struct Moved {
  std::int64_t elements = 0;   ///< of the kernel's dtype
  std::int64_t gradients = 0;  ///< of its gradient_dtype
  std::int64_t words = 0;      ///< of 4 bytes: token ids, statistics, rotary table
  std::int64_t halves = 0;     ///< of 2 bytes: copies of parameters
};

Moved embedding_moves(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  if (k.kind == KernelKind::embedding_forward)
    return {.elements = x * (k.positions > 0 ? 3 : 2), .words = k.rows};
  return {.elements = x,
          .gradients = (k.out + k.positions) * k.in * (k.accumulate ? 2 : 1),
          .words = k.rows};
}

Moved norm_moves(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  const std::int64_t statistics = k.rows * (k.norm == NormKind::layer_norm ? 2 : 1);
  if (k.kind == KernelKind::norm_forward)
    return {.elements = 2 * x + k.in * (k.has_bias ? 2 : 1), .words = statistics};
  return {.elements = x * (k.accumulate_input ? 4 : 3) + k.in,
          .gradients = k.in * (k.has_bias ? 2 : 1),
          .words = statistics};
}

Moved linear_moves(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  const std::int64_t y = k.rows * k.out;
  const std::int64_t weight = k.in * k.out;
  const std::int64_t bias = k.has_bias ? k.out : 0;
  if (k.kind == KernelKind::linear_forward)
    return {.elements = x + weight + bias + y * (k.has_residual || k.has_gelu ? 2 : 1)};
  if (k.kind == KernelKind::linear_backward_input)
    return {.elements = y + weight + x * (k.accumulate_input || k.has_gelu ? 2 : 1)};
  if (!k.has_weight_gradient) return {.elements = y, .gradients = bias};
  return {.elements = y + x, .gradients = weight * (k.accumulate ? 2 : 1) + bias};
}

Moved attention_moves(const Kernel& k) {
  const std::int64_t heads = q_elements(k) + kv_elements(k);
  if (k.kind == KernelKind::attention_forward)
    return {.elements = 2 * heads, .words = k.rows * k.heads};
  if (k.kind == KernelKind::attention_backward)
    return {.elements = 4 * heads, .words = k.rows * k.heads};
  return {.elements = 2 * heads, .words = k.length * k.head_dim};
}

Moved moves_of(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  const std::int64_t copies = k.has_copy ? k.elements : 0;
  switch (k.kind) {
    case KernelKind::embedding_forward:
    case KernelKind::embedding_backward:
      return embedding_moves(k);
    case KernelKind::norm_forward:
    case KernelKind::norm_backward:
      return norm_moves(k);
    case KernelKind::linear_forward:
    case KernelKind::linear_backward_input:
    case KernelKind::linear_backward_weight:
      return linear_moves(k);
    case KernelKind::rope_table:
      return {.words = k.length * k.head_dim};
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      return attention_moves(k);
    case KernelKind::gelu_forward:
      return {.elements = 2 * x};
    case KernelKind::gelu_backward:
    case KernelKind::swiglu_forward:
      return {.elements = 3 * x};
    case KernelKind::swiglu_backward:
      return {.elements = 5 * x};
    case KernelKind::cross_entropy:
      return {.elements = 2 * k.rows * k.out, .words = k.rows};
    case KernelKind::count_targets:
      return {.words = k.rows};
    case KernelKind::sum_of_squares:
      return {.gradients = k.elements, .words = 2 * (k.elements / piece_elements)};
    case KernelKind::clip_coefficient:
      return {.words = 2 * k.elements};
    case KernelKind::adamw:
      return {.elements = 6 * k.elements, .gradients = k.elements, .halves = copies};
    case KernelKind::sgd:
      return {.elements = (k.beta1 != 0 ? 4 : 2) * k.elements,
              .gradients = k.elements,
              .halves = copies};
    case KernelKind::add:
      return {.elements = 3 * k.elements};
    case KernelKind::fill_zero:
      return {.elements = k.elements};
  }
  return {};
}

}  // namespace

std::string_view name_of(KernelKind kind) { return kernel_names[static_cast<std::size_t>(kind)]; }

Flops flops_of(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  switch (k.kind) {
    case KernelKind::linear_forward:
      return {2 * k.rows * k.in * k.out + (k.has_residual ? k.rows * k.out : 0) +
              (k.has_gelu ? gelu_flops * k.rows * k.out : 0)};
    case KernelKind::linear_backward_input:
      return {2 * k.rows * k.in * k.out + (k.has_gelu ? gelu_backward_flops * x : 0)};
    case KernelKind::linear_backward_weight:
      return {(k.has_weight_gradient ? 2 * k.rows * k.in * k.out : 0) +
              (k.has_bias ? k.rows * k.out : 0)};
    // Two products forward (q k^T, p v), five backward (q k^T again, dp, dv, dq, dk), 2 D flops a
    // pair each.
    case KernelKind::attention_forward:
      return {causal_pairs(k) * 4 * k.head_dim};
    case KernelKind::attention_backward:
      return {causal_pairs(k) * 10 * k.head_dim};
    case KernelKind::norm_forward:
      return {x * (k.norm == NormKind::layer_norm ? 8 : 4)};
    case KernelKind::norm_backward:
      return {x * (k.norm == NormKind::layer_norm ? 14 : 10)};
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
      return {3 * (q_elements(k) + kv_elements(k))};
    case KernelKind::gelu_forward:
      return {x * gelu_flops};
    case KernelKind::gelu_backward:
      return {x * gelu_backward_flops};
    case KernelKind::swiglu_forward:
      return {x * 5};
    case KernelKind::swiglu_backward:
      return {x * 11};
    case KernelKind::cross_entropy:
      return {k.rows * k.out * 5};
    case KernelKind::count_targets:
      return {k.rows};
    case KernelKind::embedding_forward:
      return {k.positions > 0 ? x : 0};
    case KernelKind::embedding_backward:
      return {x * (k.positions > 0 ? 2 : 1)};
    case KernelKind::sum_of_squares:
      return {2 * k.elements};
    case KernelKind::clip_coefficient:
      return {k.elements};
    case KernelKind::adamw:
      return {14 * k.elements};
    case KernelKind::sgd:
      return {6 * k.elements};
    case KernelKind::add:
      return {k.elements};
    case KernelKind::rope_table:
    case KernelKind::fill_zero:
      return {};
  }
  return {};
}

Bytes bytes_of(const Kernel& kernel) {
  const Moved moved = moves_of(kernel);
  return bytes_of(moved.elements, kernel.dtype) + bytes_of(moved.gradients, kernel.gradient_dtype) +
         bytes_of(moved.words, Dtype::float32) + bytes_of(moved.halves, Dtype::bfloat16);
}

}  // namespace shardscope

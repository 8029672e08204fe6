#include "core/kernel.h"

#include "core/dtype.h"

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

/// Float-sized elements that one call reads and writes.
std::int64_t floats_of(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  const std::int64_t y = k.rows * k.out;
  const std::int64_t weight = k.in * k.out;
  switch (k.kind) {
    case KernelKind::embedding_forward:
      return k.rows + x * (k.positions > 0 ? 3 : 2);
    case KernelKind::embedding_backward:
      return k.rows + x + (k.out + k.positions) * k.in * (k.accumulate ? 2 : 1);
    case KernelKind::norm_forward:
      return 2 * x + k.in * (k.has_bias ? 2 : 1) +
             k.rows * (k.norm == NormKind::layer_norm ? 2 : 1);
    case KernelKind::norm_backward:
      return x * (k.accumulate_input ? 4 : 3) + k.in * (k.has_bias ? 3 : 2) +
             k.rows * (k.norm == NormKind::layer_norm ? 2 : 1);
    case KernelKind::linear_forward:
      return x + weight + (k.has_bias ? k.out : 0) + y * (k.has_residual ? 2 : 1);
    case KernelKind::linear_backward_input:
      return y + weight + x * (k.accumulate_input ? 2 : 1);
    case KernelKind::linear_backward_weight:
      return y + (k.has_weight_gradient ? x + weight * (k.accumulate ? 2 : 1) : 0) +
             (k.has_bias ? k.out : 0);
    case KernelKind::rope_table:
      return k.length * k.head_dim;
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
      return k.length * k.head_dim + 2 * (q_elements(k) + kv_elements(k));
    case KernelKind::attention_forward:
      return 2 * q_elements(k) + 2 * kv_elements(k) + k.rows * k.heads;
    case KernelKind::attention_backward:
      return 4 * q_elements(k) + 4 * kv_elements(k) + k.rows * k.heads;
    case KernelKind::gelu_forward:
      return 2 * x;
    case KernelKind::gelu_backward:
      return 3 * x;
    case KernelKind::swiglu_forward:
      return 3 * x;
    case KernelKind::swiglu_backward:
      return 5 * x;
    case KernelKind::cross_entropy:
      return k.rows + 2 * y;
    case KernelKind::sum_of_squares:
      return k.elements + 2 * (k.elements / piece_elements);
    case KernelKind::clip_coefficient:
      return 2 * k.elements;
    case KernelKind::adamw:
      return 7 * k.elements;
    case KernelKind::sgd:
      return k.beta1 != 0 ? 5 * k.elements : 3 * k.elements;
    case KernelKind::add:
      return 3 * k.elements;
    case KernelKind::fill_zero:
      return k.elements;
  }
  return 0;
}

}  // namespace

std::string_view name_of(KernelKind kind) { return kernel_names[static_cast<std::size_t>(kind)]; }

Flops flops_of(const Kernel& k) {
  const std::int64_t x = k.rows * k.in;
  switch (k.kind) {
    case KernelKind::linear_forward:
      return {2 * k.rows * k.in * k.out + (k.has_residual ? k.rows * k.out : 0)};
    case KernelKind::linear_backward_input:
      return {2 * k.rows * k.in * k.out};
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
      return {x * 9};
    case KernelKind::gelu_backward:
      return {x * 14};
    case KernelKind::swiglu_forward:
      return {x * 5};
    case KernelKind::swiglu_backward:
      return {x * 11};
    case KernelKind::cross_entropy:
      return {k.rows * k.out * 5};
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

Bytes bytes_of(const Kernel& kernel) { return bytes_of(floats_of(kernel), Dtype::float32); }

}  // namespace shardscope

// The operator kinds of the `native` implementation: keys of JSON, of tables by kind and of
// calibrated rates.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

/// One of each struct in kernel_structs.h, which says what it computes.
enum class KernelKind : std::uint8_t {
  embedding_forward,
  embedding_backward,
  norm_forward,
  norm_backward,
  linear_forward,
  linear_backward_input,
  linear_backward_weight,
  rope_table,
  rope_forward,
  rope_backward,
  attention_forward,
  attention_backward,
  gelu_forward,
  gelu_backward,
  swiglu_forward,
  swiglu_backward,
  cross_entropy,
  count_targets,
  sum_of_squares,
  clip_coefficient,
  adamw,
  sgd,
  add,
  fill_zero,
};
inline constexpr int kernel_kind_count = static_cast<int>(KernelKind::fill_zero) + 1;

std::string_view name_of(KernelKind kind);  ///< "linear_backward_weight"

constexpr bool is_linear(KernelKind kind) {
  return kind == KernelKind::linear_forward || kind == KernelKind::linear_backward_input ||
         kind == KernelKind::linear_backward_weight;
}

constexpr bool is_attention(KernelKind kind) {
  return kind == KernelKind::attention_forward || kind == KernelKind::attention_backward;
}

}  // namespace shardscope

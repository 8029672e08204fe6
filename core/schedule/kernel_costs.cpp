// What each kind of kernel computes and moves: one overload an operator kind, so that a new kind
// does not compile without its costs.
#include "core/base/dtype.h"
#include "core/schedule/kernel.h"

namespace shardscope {
namespace {

// Floating-point operations.

/// Of one element.
constexpr std::int64_t gelu_flops = 9;
constexpr std::int64_t gelu_backward_flops = 14;

template <LinearKernel K>
std::int64_t product_flops(const K& k) {
  return 2 * k.rows * k.in * k.out;
}

/// Query-key pairs that a causal mask leaves: T (T + 1) / 2 a head and sequence.
std::int64_t causal_pairs(const AttentionKernel& k) {
  return k.batch * k.heads * (k.length * (k.length + 1) / 2);
}

/// Of q and k together.
std::int64_t head_elements(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                           std::int64_t head_dim) {
  return rows * heads * head_dim + rows * kv_heads * head_dim;
}
std::int64_t head_elements(const RopeKernel& k) {
  return head_elements(k.rows, k.heads, k.kv_heads, k.head_dim);
}
std::int64_t head_elements(const AttentionKernel& k) {
  return head_elements(k.rows, k.heads, k.kv_heads, k.head_dim);
}

std::int64_t flops(const EmbeddingForwardKernel& k) {
  return k.positions > 0 ? k.rows * k.width : 0;
}
std::int64_t flops(const EmbeddingBackwardKernel& k) {
  return k.rows * k.width * (k.positions > 0 ? 2 : 1);
}
std::int64_t flops(const NormForwardKernel& k) {
  return k.rows * k.width * (k.norm == NormKind::layer_norm ? 8 : 4);
}
std::int64_t flops(const NormBackwardKernel& k) {
  return k.rows * k.width * (k.norm == NormKind::layer_norm ? 14 : 10);
}
std::int64_t flops(const LinearForwardKernel& k) {
  return product_flops(k) + (k.has_residual ? k.rows * k.out : 0) +
         (k.has_gelu ? gelu_flops * k.rows * k.out : 0);
}
std::int64_t flops(const LinearBackwardInputKernel& k) {
  return product_flops(k) + (k.has_gelu ? gelu_backward_flops * k.rows * k.in : 0);
}
std::int64_t flops(const LinearBackwardWeightKernel& k) {
  return (k.has_weight_gradient ? product_flops(k) : 0) + (k.has_bias ? k.rows * k.out : 0);
}
std::int64_t flops(const RopeTableKernel&) { return 0; }
std::int64_t flops(const RopeKernel& k) { return 3 * head_elements(k); }
// Two products forward (q k^T, p v), five backward (q k^T again, dp, dv, dq, dk), 2 D flops a pair
// each.
std::int64_t flops(const AttentionForwardKernel& k) { return causal_pairs(k) * 4 * k.head_dim; }
std::int64_t flops(const AttentionBackwardKernel& k) { return causal_pairs(k) * 10 * k.head_dim; }
std::int64_t flops(const GeluForwardKernel& k) { return k.rows * k.features * gelu_flops; }
std::int64_t flops(const GeluBackwardKernel& k) {
  return k.rows * k.features * gelu_backward_flops;
}
std::int64_t flops(const SwigluForwardKernel& k) { return k.rows * k.features * 5; }
std::int64_t flops(const SwigluBackwardKernel& k) { return k.rows * k.features * 11; }
std::int64_t flops(const CrossEntropyKernel& k) { return k.rows * k.classes * 5; }
std::int64_t flops(const CountTargetsKernel& k) { return k.rows; }
std::int64_t flops(const SumOfSquaresKernel& k) { return 2 * k.elements; }
std::int64_t flops(const ClipCoefficientKernel& k) { return k.pieces; }
std::int64_t flops(const AdamWKernel& k) { return 14 * k.elements; }
std::int64_t flops(const SgdKernel& k) { return 6 * k.elements; }
std::int64_t flops(const AddKernel& k) { return k.elements; }
std::int64_t flops(const FillZeroKernel&) { return 0; }

// Bytes.

/// What one call reads and writes, by element type.
struct Moved {
  std::int64_t elements = 0;   ///< of the kernel's dtype
  std::int64_t gradients = 0;  ///< of its gradient_dtype
  std::int64_t words = 0;      ///< of 4 bytes: token ids, statistics, rotary table
  std::int64_t halves = 0;     ///< of 2 bytes: copies of parameters
};

Moved moved(const EmbeddingForwardKernel& k) {
  return {.elements = k.rows * k.width * (k.positions > 0 ? 3 : 2), .words = k.rows};
}
Moved moved(const EmbeddingBackwardKernel& k) {
  return {.elements = k.rows * k.width,
          .gradients = (k.vocabulary + k.positions) * k.width * (k.accumulate ? 2 : 1),
          .words = k.rows};
}

std::int64_t statistics(NormKind norm, std::int64_t rows) {
  return rows * (norm == NormKind::layer_norm ? 2 : 1);
}
Moved moved(const NormForwardKernel& k) {
  return {.elements = 2 * k.rows * k.width + k.width * (k.has_bias ? 2 : 1),
          .words = statistics(k.norm, k.rows)};
}
Moved moved(const NormBackwardKernel& k) {
  return {.elements = k.rows * k.width * (k.accumulate_input ? 4 : 3) + k.width,
          .gradients = k.width * (k.has_bias ? 2 : 1),
          .words = statistics(k.norm, k.rows)};
}

Moved moved(const LinearForwardKernel& k) {
  const std::int64_t y = k.rows * k.out * (k.has_residual || k.has_gelu ? 2 : 1);
  return {.elements = k.rows * k.in + k.in * k.out + (k.has_bias ? k.out : 0) + y};
}
Moved moved(const LinearBackwardInputKernel& k) {
  const std::int64_t dx = k.rows * k.in * (k.accumulate_input || k.has_gelu ? 2 : 1);
  return {.elements = k.rows * k.out + k.in * k.out + dx};
}
Moved moved(const LinearBackwardWeightKernel& k) {
  const std::int64_t dbias = k.has_bias ? k.out : 0;
  if (!k.has_weight_gradient) return {.elements = k.rows * k.out, .gradients = dbias};
  return {.elements = k.rows * k.out + k.rows * k.in,
          .gradients = k.in * k.out * (k.accumulate ? 2 : 1) + dbias};
}

Moved moved(const RopeTableKernel& k) { return {.words = k.length * k.head_dim}; }
Moved moved(const RopeKernel& k) {
  return {.elements = 2 * head_elements(k), .words = k.length * k.head_dim};
}
Moved moved(const AttentionForwardKernel& k) {
  return {.elements = 2 * head_elements(k), .words = k.rows * k.heads};
}
Moved moved(const AttentionBackwardKernel& k) {
  return {.elements = 4 * head_elements(k), .words = k.rows * k.heads};
}

Moved moved(const GeluForwardKernel& k) { return {.elements = 2 * k.rows * k.features}; }
Moved moved(const GeluBackwardKernel& k) { return {.elements = 3 * k.rows * k.features}; }
Moved moved(const SwigluForwardKernel& k) { return {.elements = 3 * k.rows * k.features}; }
Moved moved(const SwigluBackwardKernel& k) { return {.elements = 5 * k.rows * k.features}; }

Moved moved(const CrossEntropyKernel& k) {
  return {.elements = 2 * k.rows * k.classes, .words = k.rows};
}
Moved moved(const CountTargetsKernel& k) { return {.words = k.rows}; }

Moved moved(const SumOfSquaresKernel& k) {
  return {.gradients = k.elements, .words = 2 * (k.elements / piece_elements)};
}
Moved moved(const ClipCoefficientKernel& k) { return {.words = 2 * k.pieces}; }
Moved moved(const AdamWKernel& k) {
  return {
      .elements = 6 * k.elements, .gradients = k.elements, .halves = k.has_copy ? k.elements : 0};
}
Moved moved(const SgdKernel& k) {
  return {.elements = (k.momentum != 0 ? 4 : 2) * k.elements,
          .gradients = k.elements,
          .halves = k.has_copy ? k.elements : 0};
}

Moved moved(const AddKernel& k) { return {.elements = 3 * k.elements}; }
Moved moved(const FillZeroKernel& k) { return {.elements = k.elements}; }

}  // namespace

Flops flops_of(const Kernel& kernel) {
  return {kernel.visit([](const auto& k) { return flops(k); })};
}

Bytes bytes_of(const Kernel& kernel) {
  return kernel.visit([](const auto& k) {
    const Moved all = moved(k);
    return bytes_of(all.elements, dtype_of(k)) + bytes_of(all.gradients, gradient_dtype_of(k)) +
           bytes_of(all.words, Dtype::float32) + bytes_of(all.halves, Dtype::bfloat16);
  });
}

}  // namespace shardscope

#include "backend/calibrate/kernel_operands.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/base/bfloat16.h"

namespace shardscope {
namespace {

/// What is made on the host; the rest is copies of it, which a device makes by itself.
constexpr std::size_t repeated_bytes = 1 << 20;

OperandSpec numbers(std::int64_t elements, Dtype dtype) {
  return {bytes_of(elements, dtype), dtype == Dtype::bfloat16 ? Content::halves : Content::floats};
}
OperandSpec floats(std::int64_t count) { return numbers(count, Dtype::float32); }
std::int64_t count_if(bool present, std::int64_t count) { return present ? count : 0; }
OperandSpec doubles(std::int64_t elements) { return {Bytes{elements * 8}, Content::zeros}; }
OperandSpec tokens(std::int64_t elements) { return {Bytes{elements * 4}, Content::tokens}; }

using Specs = std::vector<OperandSpec>;

Specs specs(const EmbeddingForwardKernel& k) {
  const auto elements = [&](std::int64_t rows) { return numbers(rows * k.width, k.dtype); };
  return {tokens(k.rows), elements(k.vocabulary), elements(k.positions), elements(k.rows)};
}
Specs specs(const EmbeddingBackwardKernel& k) {
  return {tokens(k.rows), numbers(k.rows * k.width, k.dtype),
          numbers(k.vocabulary * k.width, k.gradient_dtype),
          numbers(k.positions * k.width, k.gradient_dtype)};
}

Specs specs(const NormForwardKernel& k) {
  const OperandSpec x = numbers(k.rows * k.width, k.dtype);
  return {x,
          numbers(k.width, k.dtype),
          numbers(count_if(k.has_bias, k.width), k.dtype),
          x,
          floats(count_if(k.norm == NormKind::layer_norm, k.rows)),
          floats(k.rows)};
}
Specs specs(const NormBackwardKernel& k) {
  const OperandSpec x = numbers(k.rows * k.width, k.dtype);
  return {x,
          x,
          numbers(k.width, k.dtype),
          floats(count_if(k.norm == NormKind::layer_norm, k.rows)),
          floats(k.rows),
          x,
          numbers(count_if(k.has_weight_gradient, k.width), k.gradient_dtype),
          numbers(count_if(k.has_bias, k.width), k.gradient_dtype)};
}

Specs specs(const LinearForwardKernel& k) {
  const OperandSpec y = numbers(k.rows * k.out_row(), k.dtype);
  Specs all{numbers(k.rows * k.in, k.dtype), numbers(k.in * k.out, k.dtype),
            numbers(count_if(k.has_bias, k.out), k.dtype),
            numbers(count_if(k.has_residual, k.rows * k.out_row()), k.dtype), y};
  if (k.has_gelu) all.push_back(y);
  return all;
}
Specs specs(const LinearBackwardInputKernel& k) {
  const OperandSpec x = numbers(k.rows * k.in, k.dtype);
  Specs all{numbers(k.rows * k.out_row(), k.dtype), numbers(k.in * k.out, k.dtype), x};
  if (k.has_gelu) all.push_back(x);
  return all;
}
Specs specs(const LinearBackwardWeightKernel& k) {
  return {numbers(k.rows * k.in, k.dtype), numbers(k.rows * k.out_row(), k.dtype),
          numbers(count_if(k.has_weight_gradient, k.in * k.out), k.gradient_dtype),
          numbers(count_if(k.has_bias, k.out), k.gradient_dtype)};
}

Specs specs(const RopeTableKernel& k) { return {floats(k.length * k.head_dim)}; }
Specs specs(const RopeKernel& k) {
  return {floats(k.length * k.head_dim), numbers(k.rows * k.q_stride, k.dtype),
          numbers(k.rows * k.kv_stride, k.dtype)};
}

Specs specs(const AttentionForwardKernel& k) {
  const OperandSpec kv = numbers(k.rows * k.kv_stride, k.dtype);
  return {numbers(k.rows * k.q_stride, k.dtype), kv, kv,
          numbers(k.rows * k.heads * k.head_dim, k.dtype), floats(k.rows * k.heads)};
}
Specs specs(const AttentionBackwardKernel& k) {
  const OperandSpec q = numbers(k.rows * k.q_stride, k.dtype);
  const OperandSpec kv = numbers(k.rows * k.kv_stride, k.dtype);
  const OperandSpec y = numbers(k.rows * k.heads * k.head_dim, k.dtype);
  return {y, q, kv, kv, y, floats(k.rows * k.heads), q, kv, kv};
}

Specs matrices(const ActivationKernel& k, std::size_t count) {
  return Specs(count, numbers(k.rows * k.features, k.dtype));
}
Specs specs(const GeluForwardKernel& k) { return matrices(k, 2); }
Specs specs(const GeluBackwardKernel& k) { return matrices(k, 2); }
Specs specs(const SwigluForwardKernel& k) { return matrices(k, 3); }
Specs specs(const SwigluBackwardKernel& k) { return matrices(k, 3); }

Specs specs(const CrossEntropyKernel& k) {
  return {tokens(k.rows), numbers(k.rows * k.logits_row(), k.dtype), doubles(1),
          doubles(k.has_count ? 1 : 0)};
}
Specs specs(const CountTargetsKernel& k) { return {tokens(k.rows), doubles(1)}; }

std::int64_t pieces_of(std::int64_t elements) {
  return (elements + piece_elements - 1) / piece_elements;
}
Specs specs(const SumOfSquaresKernel& k) {
  return {numbers(k.elements, k.gradient_dtype), doubles(pieces_of(k.elements))};
}
Specs specs(const ClipCoefficientKernel& k) { return {doubles(k.pieces), doubles(2)}; }
Specs specs(const AdamWKernel& k) {
  const OperandSpec shard = numbers(k.elements, k.dtype);
  return {doubles(k.has_clip ? 2 : 0),
          numbers(k.elements, k.gradient_dtype),
          shard,
          shard,
          shard,
          numbers(count_if(k.has_copy, k.elements), Dtype::bfloat16)};
}
Specs specs(const SgdKernel& k) {
  return {doubles(k.has_clip ? 2 : 0), numbers(k.elements, k.gradient_dtype),
          numbers(k.elements, k.dtype), numbers(count_if(k.momentum != 0, k.elements), k.dtype),
          numbers(count_if(k.has_copy, k.elements), Dtype::bfloat16)};
}

Specs specs(const AddKernel& k) { return Specs(2, numbers(k.elements, k.dtype)); }
Specs specs(const FillZeroKernel& k) { return {numbers(k.elements, k.dtype)}; }

/// Optimizer kernels get all their elements as one slice.
std::vector<Slice> slices_of(const Kernel& kernel) {
  return kernel.visit([]<class K>(const K& k) -> std::vector<Slice> {
    if constexpr (K::kind == KernelKind::clip_coefficient)
      return {{.parameter = ParameterId::of(0), .elements = k.pieces * piece_elements}};
    else if constexpr (K::kind == KernelKind::sum_of_squares || K::kind == KernelKind::adamw ||
                       K::kind == KernelKind::sgd)
      return {{.parameter = ParameterId::of(0), .elements = k.elements, .decay = true}};
    else
      return {};
  });
}

/// Rows of the table that the kernel's tokens look up; 0 of kinds without one.
std::int64_t vocabulary_of(const Kernel& kernel) {
  return kernel.visit([](const auto& k) -> std::int64_t {
    if constexpr (requires { k.vocabulary; })
      return k.vocabulary;
    else if constexpr (requires { k.classes; })
      return k.classes;
    else
      return 0;
  });
}

/// Multiplied by it, neighbouring indices fall far apart (Knuth, TAOCP 3, 6.4).
constexpr std::uint32_t mix = 2654435761u;

template <class Element, class Convert>
void fill_numbers(std::span<std::byte> memory, Convert convert) {
  auto* values = reinterpret_cast<Element*>(memory.data());
  for (std::size_t i = 0; i < memory.size() / sizeof(Element); ++i)
    values[i] =
        convert(0.5f + static_cast<float>(static_cast<std::uint32_t>(i) * mix >> 8) / 16777216.0f);
}

void fill_tokens(std::span<std::byte> memory, std::int64_t vocabulary) {
  auto* values = reinterpret_cast<std::int32_t*>(memory.data());
  const auto below = static_cast<std::uint32_t>(std::max<std::int64_t>(vocabulary, 1));
  for (std::size_t i = 0; i < memory.size() / sizeof(std::int32_t); ++i)
    values[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * mix % below);
}

void fill(std::span<std::byte> memory, Content content, std::int64_t vocabulary) {
  switch (content) {
    case Content::floats:
      return fill_numbers<float>(memory, [](float value) { return value; });
    case Content::halves:
      return fill_numbers<Bfloat16>(memory, to_bfloat16);
    case Content::tokens:
      return fill_tokens(memory, vocabulary);
    case Content::zeros:
      return;  // as the arena was given
  }
}

}  // namespace

std::vector<OperandSpec> operand_specs(const Kernel& kernel) {
  return kernel.visit([](const auto& k) { return specs(k); });
}

KernelOperands::KernelOperands(const Kernel& kernel, Device& device)
    : memory_(device.memory()), slices_(slices_of(kernel)) {
  for (const OperandSpec& spec : operand_specs(kernel))
    pointers_.push_back(allocate(spec, vocabulary_of(kernel)));
  pointers_.push_back(allocate({device.workspace(kernel), Content::zeros}, 0));
}

std::byte* KernelOperands::allocate(const OperandSpec& spec, std::int64_t vocabulary) {
  if (spec.bytes <= Bytes{}) return nullptr;
  arenas_.push_back(memory_.allocate(spec.bytes));
  std::byte* memory = arenas_.back()->data();
  if (spec.content == Content::zeros) return memory;
  const auto bytes = static_cast<std::size_t>(spec.bytes.count);
  std::vector<std::byte> beginning(std::min(bytes, repeated_bytes));
  fill(beginning, spec.content, vocabulary);
  memory_.copy_in(memory, beginning);
  for (std::size_t filled = beginning.size(); filled < bytes; filled *= 2)
    memory_.copy(memory + filled, {memory, std::min(filled, bytes - filled)});
  return memory;
}

}  // namespace shardscope

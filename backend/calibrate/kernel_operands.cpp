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
/// Of the kernel's dtype, of its gradient_dtype, and statistics.
OperandSpec elements(const Kernel& k, std::int64_t count) { return numbers(count, k.dtype); }
OperandSpec gradients(const Kernel& k, std::int64_t count) {
  return numbers(count, k.gradient_dtype);
}
OperandSpec floats(std::int64_t count) { return numbers(count, Dtype::float32); }
std::int64_t count_if(bool present, std::int64_t count) { return present ? count : 0; }
OperandSpec doubles(std::int64_t elements) { return {Bytes{elements * 8}, Content::zeros}; }
OperandSpec tokens(std::int64_t elements) { return {Bytes{elements * 4}, Content::tokens}; }

std::vector<OperandSpec> embedding_specs(const Kernel& k) {
  const std::int64_t table = k.out * k.in;
  const std::int64_t positions = k.positions * k.in;
  if (k.kind == KernelKind::embedding_forward)
    return {tokens(k.rows), elements(k, table), elements(k, positions), elements(k, k.rows * k.in)};
  return {tokens(k.rows), elements(k, k.rows * k.in), gradients(k, table), gradients(k, positions)};
}

std::vector<OperandSpec> norm_specs(const Kernel& k) {
  const OperandSpec x = elements(k, k.rows * k.in);
  const OperandSpec weight = elements(k, k.in);
  const std::int64_t bias = count_if(k.has_bias, k.in);
  const OperandSpec mean = floats(count_if(k.norm == NormKind::layer_norm, k.rows));
  const OperandSpec rstd = floats(k.rows);
  if (k.kind == KernelKind::norm_forward) return {x, weight, elements(k, bias), x, mean, rstd};
  return {x,
          x,
          weight,
          mean,
          rstd,
          x,
          gradients(k, count_if(k.has_weight_gradient, k.in)),
          gradients(k, bias)};
}

std::vector<OperandSpec> with_gelu(const Kernel& k, std::vector<OperandSpec> specs,
                                   const OperandSpec& h) {
  if (k.has_gelu) specs.push_back(h);
  return specs;
}

std::vector<OperandSpec> linear_specs(const Kernel& k) {
  const OperandSpec x = elements(k, k.rows * k.in);
  const OperandSpec y = elements(k, k.rows * k.out_row());
  const OperandSpec weight = elements(k, k.in * k.out);
  const std::int64_t bias = count_if(k.has_bias, k.out);
  if (k.kind == KernelKind::linear_forward)
    return with_gelu(k,
                     {x, weight, elements(k, bias),
                      elements(k, count_if(k.has_residual, k.rows * k.out_row())), y},
                     y);
  if (k.kind == KernelKind::linear_backward_input) return with_gelu(k, {y, weight, x}, x);
  return {x, y, gradients(k, count_if(k.has_weight_gradient, k.in * k.out)), gradients(k, bias)};
}

std::vector<OperandSpec> attention_specs(const Kernel& k) {
  const OperandSpec q = elements(k, k.rows * k.q_stride);
  const OperandSpec kv = elements(k, k.rows * k.kv_stride);
  const OperandSpec y = elements(k, k.rows * k.heads * k.head_dim);
  const OperandSpec lse = floats(k.rows * k.heads);
  switch (k.kind) {
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
      return {floats(k.length * k.head_dim), q, kv};
    case KernelKind::attention_forward:
      return {q, kv, kv, y, lse};
    default:
      return {y, q, kv, kv, y, lse, q, kv, kv};
  }
}

std::vector<OperandSpec> optimizer_specs(const Kernel& k) {
  const OperandSpec shard = elements(k, k.elements);
  const OperandSpec clip = doubles(k.has_clip ? 2 : 0);
  const OperandSpec copy = numbers(count_if(k.has_copy, k.elements), Dtype::bfloat16);
  std::vector<OperandSpec> specs{clip, gradients(k, k.elements), shard};
  if (k.kind == KernelKind::adamw)
    specs.insert(specs.end(), {shard, shard, copy});
  else
    specs.insert(specs.end(), {elements(k, count_if(k.beta1 != 0, k.elements)), copy});
  return specs;
}

std::int64_t pieces_of(std::int64_t elements) {
  return (elements + piece_elements - 1) / piece_elements;
}

/// Optimizer kernels get all their elements as one slice.
std::vector<Slice> slices_of(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::sum_of_squares:
    case KernelKind::adamw:
    case KernelKind::sgd:
      return {{.parameter = ParameterId::of(0), .elements = k.elements, .decay = true}};
    case KernelKind::clip_coefficient:
      return {{.parameter = ParameterId::of(0), .elements = k.elements * piece_elements}};
    default:
      return {};
  }
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

std::vector<OperandSpec> operand_specs(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::embedding_forward:
    case KernelKind::embedding_backward:
      return embedding_specs(k);
    case KernelKind::norm_forward:
    case KernelKind::norm_backward:
      return norm_specs(k);
    case KernelKind::linear_forward:
    case KernelKind::linear_backward_input:
    case KernelKind::linear_backward_weight:
      return linear_specs(k);
    case KernelKind::rope_table:
      return {floats(k.length * k.head_dim)};
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      return attention_specs(k);
    case KernelKind::gelu_forward:
    case KernelKind::gelu_backward:
      return {elements(k, k.rows * k.in), elements(k, k.rows * k.in)};
    case KernelKind::swiglu_forward:
    case KernelKind::swiglu_backward:
      return {elements(k, k.rows * k.in), elements(k, k.rows * k.in), elements(k, k.rows * k.in)};
    case KernelKind::cross_entropy:
      return {tokens(k.rows), elements(k, k.rows * k.out_row()), doubles(1),
              doubles(k.has_count ? 1 : 0)};
    case KernelKind::count_targets:
      return {tokens(k.rows), doubles(1)};
    case KernelKind::sum_of_squares:
      return {gradients(k, k.elements), doubles(pieces_of(k.elements))};
    case KernelKind::clip_coefficient:
      return {doubles(k.elements), doubles(2)};
    case KernelKind::adamw:
    case KernelKind::sgd:
      return optimizer_specs(k);
    case KernelKind::add:
      return {elements(k, k.elements), elements(k, k.elements)};
    case KernelKind::fill_zero:
      return {elements(k, k.elements)};
  }
  return {};
}

KernelOperands::KernelOperands(const Kernel& kernel, Device& device)
    : memory_(device.memory()), slices_(slices_of(kernel)) {
  for (const OperandSpec& spec : operand_specs(kernel))
    pointers_.push_back(allocate(spec, kernel.out));
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

#include "core/pytorch/engine/iterator.h"

#include <algorithm>
#include <array>

#include "core/pytorch/engine/fake_strides.h"
#include "core/pytorch/engine/stride_order.h"

namespace shardscope::eager {
namespace {

struct Shape {
  Dims sizes;
  bool all_the_same = true;
};

Shape common_shape(std::span<const Tensor* const> operands, bool with_number) {
  Shape shape;
  bool first = true;
  bool scalars = with_number, tensors = false;
  for (const Tensor* operand : operands) {
    const Dims& sizes = operand->sizes();
    (sizes.empty() ? scalars : tensors) = true;
    if (first)
      shape.sizes = sizes;
    else if (!(sizes == shape.sizes)) {
      shape.all_the_same = false;
      shape.sizes = broadcast(shape.sizes, sizes);
    }
    first = false;
  }
  if (scalars && tensors) shape.all_the_same = false;
  return shape;
}

/// Whether all operands are dense with the same strides.
bool same_dense_strides(std::span<const Tensor* const> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](const Tensor* operand) {
    return operand->strides() == operands[0]->strides() &&
           is_dense(operand->sizes(), operand->strides());
  });
}

/// Strides of an operand as if it had the common shape; 0 where it is broadcast.
Dims broadcast_strides(const Tensor& operand, const Dims& sizes) {
  Dims strides = Dims::filled(sizes.size(), 0);
  for (int i = 1; i <= operand.dim(); ++i)
    if (operand.sizes()[-i] != 1 || sizes[-i] == 1) strides[-i] = operand.strides()[-i];
  return strides;
}

/// 1 if dimension `a` goes after `b`, -1 if before, 0 if that cannot be said.
int should_swap(std::span<const Dims> strides, const Dims& sizes, int a, int b) {
  for (const Dims& of : strides) {
    if (of[a] == 0 || of[b] == 0) continue;
    if (of[a] != of[b]) return of[a] < of[b] ? -1 : 1;
    if (sizes[a] > sizes[b]) return 1;
  }
  return 0;
}

}  // namespace

IteratorOutput iterate(std::span<const Tensor* const> operands, bool with_number) {
  const auto [sizes, all_the_same] = common_shape(operands, with_number);
  const bool all_contiguous =
      std::all_of(operands.begin(), operands.end(), [&](const Tensor* operand) {
        return operand->sizes() == sizes && operand->is_contiguous() &&
               (all_the_same || operand->strides() == contiguous_strides(sizes));
      });
  if (all_contiguous) return {sizes, contiguous_strides(sizes)};
  if (all_the_same && same_dense_strides(operands)) return {sizes, operands[0]->strides()};
  std::array<Dims, 4> strides;
  const std::size_t count = std::min(operands.size(), strides.size());
  for (std::size_t i = 0; i < count; ++i) strides[i] = broadcast_strides(*operands[i], sizes);
  const std::span used = std::span(strides).first(count);
  const StrideOrder order = sorted_dims(
      sizes.size(), [&, &dims = sizes](int a, int b) { return should_swap(used, dims, a, b); });
  return {sizes, strides_in(order, sizes)};
}

Tensor allocate_output(Session& s, TensorPointers operands, Dtype dtype, bool with_number) {
  const std::span all(operands.begin(), operands.size());
  const auto on_cuda = std::find_if(all.begin(), all.end(), [](const Tensor* operand) {
    return operand->device() != Device::cpu;
  });
  const Device device = on_cuda == all.end() ? Device::cpu : (*on_cuda)->device();
  IteratorOutput output = iterate(all, with_number);
  if (s.settings.fake_tensors && output.sizes.size() > 1)
    output.strides = fake_output_strides(all, output.sizes);
  return allocate_strided(s, {dtype, device}, output.sizes, output.strides);
}

bool is_floating(Dtype dtype) {
  return dtype == Dtype::float64 || dtype == Dtype::float32 || dtype == Dtype::float16 ||
         dtype == Dtype::bfloat16;
}

Dtype to_floating(Dtype dtype) { return is_floating(dtype) ? dtype : Dtype::float32; }

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) {
    if (a == Dtype::float64 || b == Dtype::float64) return Dtype::float64;
    return Dtype::float32;  // float32 with a half, or the two halves together
  }
  if (a == Dtype::boolean) return b;
  if (b == Dtype::boolean) return a;
  const bool one_unsigned = a == Dtype::uint8 || b == Dtype::uint8;
  const Bytes larger = std::max(size_of(a), size_of(b));
  if (one_unsigned && larger == 1_B) return Dtype::int16;
  return size_of(a) == larger ? a : b;
}

namespace {

/// What at::native::ResultTypeState sees of a Number: floats count as the default dtype.
Dtype dtype_of(Number number) {
  switch (number.kind) {
    case Number::Kind::boolean:
      return Dtype::boolean;
    case Number::Kind::integer:
      return Dtype::int64;
    case Number::Kind::floating:
      break;
  }
  return Dtype::float32;
}

/// at::native::combine_categories.
Dtype combine(Dtype higher, Dtype lower) {
  if (is_floating(higher)) return higher;
  if (higher == Dtype::boolean || is_floating(lower)) return promote(higher, lower);
  return higher;
}

}  // namespace

Dtype result_type(const Tensor& a, const Tensor& b) {
  const auto rank = [](const Tensor& t) { return t->wrapped_number ? 0 : t.dim() == 0 ? 1 : 2; };
  const int of_a = rank(a), of_b = rank(b);
  const auto dtype = [](const Tensor& t) {
    return t->wrapped_number && is_floating(t.dtype()) ? Dtype::float32 : t.dtype();
  };
  if (of_a == of_b) return promote(dtype(a), dtype(b));
  return of_a > of_b ? combine(dtype(a), dtype(b)) : combine(dtype(b), dtype(a));
}

Dtype result_type(const Tensor& a, Number b) { return combine(a.dtype(), dtype_of(b)); }

}  // namespace shardscope::eager

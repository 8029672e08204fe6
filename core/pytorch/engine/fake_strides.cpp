#include "core/pytorch/engine/fake_strides.h"

#include <algorithm>
#include <array>

#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/stride_order.h"

namespace shardscope::eager {
namespace {

/// torch._prims_common._get_computation_dtype of the operands' common dtype.
Dtype computation_dtype(std::span<const Tensor* const> operands) {
  Dtype dtype = operands[0]->dtype();
  for (const Tensor* operand : operands) dtype = promote(dtype, operand->dtype());
  const bool is_half = dtype == Dtype::bfloat16 || dtype == Dtype::float16;
  return is_half ? Dtype::float32 : dtype;
}

/// As Tensor.expand: 0 where the operand is broadcast.
Dims expanded_strides(const Dims& own_sizes, const Dims& own_strides, const Dims& sizes) {
  Dims strides = Dims::filled(sizes.size(), 0);
  for (int i = 1; i <= sizes.size(); ++i) {
    const bool own = i <= own_sizes.size();
    const std::int64_t size = own ? own_sizes[-i] : 1;
    const std::int64_t stride = own ? own_strides[-i] : i == 1 ? 1 : sizes[1 - i] * strides[1 - i];
    if (size == sizes[-i]) strides[-i] = stride;
  }
  return strides;
}

/// Whether a dimension of one element aside the strides are those of `order`, the fastest first.
bool lies_in_order(const Dims& sizes, const Dims& strides, const StrideOrder& order) {
  std::int64_t expected = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    const int dim = order[static_cast<std::size_t>(i)];
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

constexpr StrideOrder channels_last{1, 3, 2, 0};

bool is_channels_last(const Dims& sizes, const Dims& strides) {
  return sizes.size() == 4 && lies_in_order(sizes, strides, channels_last);
}

bool not_less(std::int64_t a, std::int64_t b) {
  return b == 0 || (a != 0 && (a >= b || a % b == 0));
}

/// should_swap of compute_elementwise_output_logical_to_physical_perm.
int should_swap(std::span<const Dims> strides, const Dims& sizes, int a, int b) {
  for (const Dims& of : strides) {
    if (of[a] == 0 || of[b] == 0) continue;
    if (of[a] == of[b]) {
      if (not_less(sizes[b], sizes[a])) continue;
      return 1;
    }
    return not_less(of[b], of[a]) ? -1 : 1;
  }
  return 0;
}

/// torch._prims_common.compute_elementwise_output_strides.
Dims output_strides(std::span<const Dims> strides, const Dims& sizes) {
  const bool all_contiguous = std::all_of(strides.begin(), strides.end(),
                                          [&](const Dims& of) { return is_contiguous(sizes, of); });
  const bool all_channels_last = std::all_of(
      strides.begin(), strides.end(), [&](const Dims& of) { return is_channels_last(sizes, of); });
  if (all_contiguous && !all_channels_last) return contiguous_strides(sizes);
  if (all_channels_last && !all_contiguous) return strides_in(channels_last, sizes);
  return strides_in(
      sorted_dims(sizes.size(), [&](int a, int b) { return should_swap(strides, sizes, a, b); }),
      sizes);
}

}  // namespace

Dims fake_output_strides(std::span<const Tensor* const> operands, const Dims& sizes) {
  const Dtype computed = computation_dtype(operands);
  std::array<Dims, 4> strides;
  const std::size_t count = std::min(operands.size(), strides.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& operand = *operands[i];
    const bool converted = operand.dtype() != computed;
    strides[i] = expanded_strides(
        operand.sizes(), converted ? preserved_strides(operand) : operand.strides(), sizes);
  }
  return output_strides(std::span(strides).first(count), sizes);
}

Dims fake_like_strides(const Tensor& tensor) {
  if (tensor.dim() < 2) return contiguous_strides(tensor.sizes());
  return output_strides(std::array{tensor.strides()}, tensor.sizes());
}

}  // namespace shardscope::eager

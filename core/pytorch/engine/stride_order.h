// The order of a tensor's dimensions in memory, and strides made from it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "core/pytorch/engine/dims.h"

namespace shardscope::eager {

/// Dimensions, the fastest first.
using StrideOrder = std::array<int, Dims::capacity>;

/// By an insertion sort that bears ambiguity: `should_swap` of two dimensions is 1 if the first
/// goes after the second, -1 if before, 0 if that cannot be said. Source: reorder_dimensions of
/// aten/src/ATen/TensorIterator.cpp.
template <class ShouldSwap>
StrideOrder sorted_dims(int count, ShouldSwap should_swap) {
  StrideOrder order{};
  for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = count - 1 - i;
  for (int i = 1; i < count; ++i) {
    int later = i;
    for (int j = i - 1; j >= 0; --j) {
      int& a = order[static_cast<std::size_t>(j)];
      int& b = order[static_cast<std::size_t>(later)];
      const int comparison = should_swap(a, b);
      if (comparison < 0) break;
      if (comparison > 0) {
        std::swap(a, b);
        later = j;
      }
    }
  }
  return order;
}

/// Of a dense tensor whose dimensions lie in that order.
inline Dims strides_in(const StrideOrder& order, const Dims& sizes) {
  Dims strides = sizes;
  std::int64_t stride = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    const int d = order[static_cast<std::size_t>(i)];
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

}  // namespace shardscope::eager

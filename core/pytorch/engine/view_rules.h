// Sizes and strides of views, without tensors.
#pragma once

#include <optional>

#include "core/pytorch/engine/dims.h"

namespace shardscope::eager {

/// Replaces one -1 by what is left; at::infer_size.
Dims infer_sizes(const Dims& sizes, std::int64_t elements);
/// Strides under which the same memory has the new sizes, if there are any:
/// at::detail::computeStride.
std::optional<Dims> view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& sizes);

/// The strides that a fake tensor's view has: torch._refs._reshape_view_helper. They differ in
/// dimensions of one element only. The view must be possible.
Dims fake_view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& sizes);

struct SliceRange {
  std::int64_t start = 0;
  std::int64_t length = 0;
};
/// Python's slice of a dimension: at::native::slice.
SliceRange slice_range(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step);

}  // namespace shardscope::eager

#include "core/pytorch/engine/view_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace shardscope::eager {

Dims infer_sizes(const Dims& sizes, std::int64_t elements) {
  Dims inferred = sizes;
  std::int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < sizes.size(); ++i)
    if (sizes[i] == -1)
      unknown = i;
    else
      known *= sizes[i];
  if (unknown >= 0) inferred[unknown] = known == 0 ? 0 : elements / known;
  if (inferred.product() != elements)
    throw Error({.where = "view",
                 .what = fmt::format("{} elements do not have the shape ({})", elements,
                                     fmt::join(sizes, ", ")),
                 .way_out = {}});
  return inferred;
}

std::optional<Dims> view_strides(const Dims& old_sizes, const Dims& old_strides,
                                 const Dims& sizes) {
  if (old_sizes.empty()) return Dims::filled(sizes.size(), 1);
  const std::int64_t elements = old_sizes.product();
  if (elements == 0) return old_sizes == sizes ? old_strides : contiguous_strides(sizes);
  Dims strides = sizes;
  int view_dim = sizes.size() - 1;
  // A chunk is a run of old dimensions that lie in memory like one.
  std::int64_t chunk_stride = old_strides.back();
  std::int64_t in_chunk = 1;
  std::int64_t in_view = 1;
  for (int d = old_sizes.size() - 1; d >= 0; --d) {
    in_chunk *= old_sizes[d];
    const bool chunk_ends =
        d == 0 || (old_sizes[d - 1] != 1 && old_strides[d - 1] != in_chunk * chunk_stride);
    if (!chunk_ends) continue;
    while (view_dim >= 0 && (in_view < in_chunk || sizes[view_dim] == 1)) {
      strides[view_dim] = in_view * chunk_stride;
      in_view *= sizes[view_dim];
      --view_dim;
    }
    if (in_view != in_chunk) return std::nullopt;
    if (d > 0) {
      chunk_stride = old_strides[d - 1];
      in_chunk = 1;
      in_view = 1;
    }
  }
  if (view_dim != -1) return std::nullopt;
  return strides;
}

namespace {

/// The dimensions first..last as one: torch._prims._collapse_view_helper.
void collapse(Dims& sizes, Dims& strides, int first, int last) {
  std::int64_t stride = strides[last], length = sizes[last];
  for (int i = last - 1; i >= first; --i) {
    if (sizes[i] != 1) stride = std::min(stride, strides[i]);
    length *= sizes[i];
  }
  for (int i = last; i > first; --i) {
    sizes.erase(i);
    strides.erase(i);
  }
  sizes[first] = length;
  strides[first] = stride;
}

/// Two dimensions instead of one, the first of them `outer` long: torch._prims._split_dim_meta.
void split(Dims& sizes, Dims& strides, int dim, std::int64_t outer) {
  const std::int64_t inner = sizes[dim] / outer;
  strides.insert(dim, strides[dim] * inner);
  sizes.insert(dim, outer);
  sizes[dim + 1] = inner;
}

}  // namespace

Dims fake_view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& sizes) {
  const bool flattened = sizes.size() == 1 && old_sizes.size() > 1;
  if (old_sizes.product() == 0 || (flattened && is_contiguous(old_sizes, old_strides)))
    return contiguous_strides(sizes);
  if (old_sizes.empty()) return Dims::filled(sizes.size(), 1);
  if (sizes.empty()) return {};
  Dims now = old_sizes, strides = old_strides;
  for (int i = 0; i < sizes.size(); ++i) {
    if (i >= now.size()) {
      split(now, strides, now.size() - 1, now.back());
      continue;
    }
    if (sizes[i] == now[i]) continue;
    std::int64_t length = now[i];
    int last = i;
    while (length % sizes[i] != 0) length *= now[++last];
    if (last != i) collapse(now, strides, i, last);
    if (length != sizes[i]) split(now, strides, i, sizes[i]);
  }
  while (strides.size() > sizes.size()) strides.erase(sizes.size());
  return strides;
}

SliceRange slice_range(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<std::int64_t>(start, 0, size);
  end = std::clamp<std::int64_t>(end, start, size);
  return {start, (end - start + step - 1) / step};
}

}  // namespace shardscope::eager

#include "core/pytorch/plans/fsdp2_shard.h"

#include <algorithm>

namespace shardscope {
namespace {

std::int64_t size_along(const Shape& shape, int dim) {
  return shape.at(static_cast<std::size_t>(dim));
}

std::int64_t elements_with(Shape shape, int dim, std::int64_t dim_size) {
  shape.at(static_cast<std::size_t>(dim)) = dim_size;
  return elements_of(shape);
}

}  // namespace

std::int64_t padded_dim_size(const Shape& shape, int dim, int shards) {
  const std::int64_t size = size_along(shape, dim);
  return size / shards + (size % shards != 0 ? 1 : 0);
}

std::int64_t padded_shard_elements(const Shape& shape, int dim, int shards) {
  return elements_with(shape, dim, padded_dim_size(shape, dim, shards));
}

Fsdp2Shard fsdp2_shard(const Shape& shape, int dim, int shards, int index) {
  const std::int64_t chunk = padded_dim_size(shape, dim, shards);
  const std::int64_t left = size_along(shape, dim) - index * chunk;
  const std::int64_t dim_size = std::clamp(left, std::int64_t{0}, chunk);
  const std::int64_t elements = elements_with(shape, dim, dim_size);
  // A chunk without elements counts as none, even if another dimension is what is empty.
  return {.dim_size = elements > 0 ? dim_size : 0, .elements = elements};
}

}  // namespace shardscope

// How FSDP2 cuts one parameter: torch.chunk along one dimension, padded to the first chunk.
#pragma once

#include <cstdint>

#include "core/model/model.h"

namespace shardscope {

/// The part of a parameter that one rank holds.
struct Fsdp2Shard {
  std::int64_t dim_size = 0;  ///< along the sharded dimension; 0: the rank's shard is empty
  std::int64_t elements = 0;  ///< without padding
  bool operator==(const Fsdp2Shard&) const = default;
};

/// Size along the sharded dimension that every rank stores: ceil(size / shards).
/// Example: 10 rows on 8 ranks: 2.
std::int64_t padded_dim_size(const Shape& shape, int dim, int shards);

/// Elements that every rank stores, padding included. Source: torch 2.15,
/// torch/distributed/fsdp/_fully_shard/_fsdp_param.py, FSDPParam._init_sharded_param.
std::int64_t padded_shard_elements(const Shape& shape, int dim, int shards);

/// What shard `index` of `shards` holds of a parameter. Example: 10 rows on 8 ranks: ranks 0 to 4
/// hold 2 rows each, ranks 5 to 7 none.
Fsdp2Shard fsdp2_shard(const Shape& shape, int dim, int shards, int index);

}  // namespace shardscope

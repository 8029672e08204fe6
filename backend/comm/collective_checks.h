// What every communicator asks of its arguments; a breach throws Error.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/base/dtype.h"

namespace shardscope {

void check_all_gather(std::size_t in_bytes, std::size_t out_bytes, int ranks);
void check_reduce_scatter(std::size_t in_bytes, std::size_t out_bytes, int ranks, Dtype dtype);
void check_all_reduce(std::size_t bytes, Dtype dtype);
void check_rank(std::string_view operation, int rank, int ranks);
/// `peer` must be a rank and not this one.
void check_other_rank(std::string_view operation, int peer, int self, int ranks);
void check_color(int color);
/// Arenas belong to the group of all.
void check_arena(Bytes size, int ranks, int world);

}  // namespace shardscope

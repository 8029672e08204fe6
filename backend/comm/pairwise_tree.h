// The fixed order in which sums over ranks are taken, on every transport.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/dtype.h"

namespace shardscope {

/// Sources in the left half of the tree over `sources` (2 or more): the largest power of two below
/// it. Splitting so again and again is the same as adding neighbours level by level and carrying an
/// odd one up: 5 = ((0+1)+(2+3))+4, 6 = ((0+1)+(2+3))+(4+5), 7 = ((0+1)+(2+3))+((4+5)+6).
std::size_t pairwise_left_half(std::size_t sources);

/// out = the pairwise-tree sum of `sources`, element by element; each holds `out.size()` bytes.
/// `out` may be one of the sources. float32, float64, int64 (which wraps), or bfloat16 (added in
/// float32, rounded once at the end); another dtype throws Error.
void pairwise_sum(Dtype dtype, std::span<const std::byte* const> sources, std::span<std::byte> out);

}  // namespace shardscope

// Start weights drawn by parameter name and seed.
#pragma once

#include <cstdint>
#include <span>

#include "core/model/model.h"

namespace shardscope {

/// Fills `out` with elements `first`, `first` + 1, ... of a fresh parameter, so that any sharding
/// draws the same weights.
///
/// Element i is lane i % 4 of Philox4x32-10 with key = seed and counter = (i / 4, FNV-1a 64 of the
/// name), turned normal by Box-Muller in double precision: lanes 0 and 1 from the first two
/// numbers, 2 and 3 from the last two.
void draw(const Parameter& parameter, std::uint64_t seed, std::int64_t first, std::span<float> out);

/// The same by up to `threads`, as many as there is work for.
void draw_by_threads(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                     std::span<float> out, int threads);

}  // namespace shardscope

// Philox4x32-10, a counter-based random number generator: the same counter and key give the same
// numbers everywhere.
#pragma once

#include <array>
#include <cstdint>

namespace shardscope {

/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; constants of
/// Random123.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

}  // namespace shardscope

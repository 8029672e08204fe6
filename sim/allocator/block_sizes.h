// The allocator's rounding: request to block, block to segment.
#pragma once

#include <cstdint>

#include "sim/allocator/allocator_settings.h"

namespace shardscope {

inline constexpr std::int64_t min_block_bytes = 512;
inline constexpr std::int64_t small_request_bytes = 1'048'576;  ///< up to here: the small pool
inline constexpr std::int64_t small_segment_bytes = 2'097'152;

/// Size of the block for a request: a multiple of 512 bytes, or the next division between two
/// powers of two (roundup_power2_divisions). Source: DeviceCachingAllocator::round_size,
/// torch 2.15. Examples: 513 bytes become 1024; 5000 bytes with 4 divisions become 5120 (4096 +
/// 1024).
std::int64_t block_bytes(std::int64_t requested, const AllocatorSettings& settings);

/// Size of the segment that is taken from the device for a block: 2 MiB for small ones,
/// `large_segment` below 10 MiB, else the next multiple of 2 MiB.
/// Source: DeviceCachingAllocator::get_allocation_size, torch 2.15.
std::int64_t segment_bytes(std::int64_t block, const AllocatorSettings& settings);

}  // namespace shardscope

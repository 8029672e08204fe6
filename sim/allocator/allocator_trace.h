// What the allocator did, and what it holds: in the words of PyTorch's memory snapshots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "sim/allocator/allocator_statistics.h"
#include "sim/allocator/device_events.h"

namespace shardscope {

enum class AllocatorAction : std::uint8_t {
  allocate,        ///< a block was handed out; bytes as requested
  free_requested,  ///< the tensor is gone
  free_completed,  ///< the block may be used again (later than requested only if a stream still had
                   ///< to finish)
  segment_allocated,
  segment_freed,
  segment_mapped,    ///< pages of an expandable segment
  segment_unmapped,  ///< pages of an expandable segment
  out_of_memory
};
/// "alloc", "free_requested": the names in a memory snapshot of PyTorch.
std::string_view name_of(AllocatorAction action);

inline constexpr std::int32_t no_segment = -1;

struct AllocatorTraceEntry {
  AllocatorAction action = AllocatorAction::allocate;
  std::int32_t segment = no_segment;  ///< in order of creation
  std::int64_t offset = -1;           ///< from the segment's start
  std::int64_t bytes = 0;
  DeviceStream stream;
  bool operator==(const AllocatorTraceEntry&) const = default;
};

enum class BlockState : std::uint8_t { allocated, pending_free, inactive };
/// "active_allocated", "active_pending_free", "inactive": the names in a memory snapshot.
std::string_view name_of(BlockState state);

struct BlockSnapshot {
  Bytes size;
  Bytes requested;  ///< of the tensor that is or was last in it
  BlockState state = BlockState::inactive;
  bool operator==(const BlockSnapshot&) const = default;
};

/// A segment; of an expandable one a contiguous range of mapped pages.
struct SegmentSnapshot {
  DeviceStream stream;
  PoolKind pool = PoolKind::large;
  std::int32_t number = no_segment;  ///< as in the trace
  Bytes size;
  std::vector<BlockSnapshot> blocks;  ///< in order of address
  bool operator==(const SegmentSnapshot&) const = default;
};

/// A request that could not be met.
struct OutOfMemory {
  Bytes requested;
  Bytes segment;                   ///< what would have been taken from the device
  Bytes device;                    ///< all of its memory
  Bytes free;                      ///< of the device, at that moment
  AllocatorStatistics statistics;  ///< at that moment
  bool operator==(const OutOfMemory&) const = default;
};
/// PyTorch's own words, up to the reference to its documentation.
std::string message_of(const OutOfMemory& failure);

}  // namespace shardscope

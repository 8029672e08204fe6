// What an allocator held when its memory snapshot was taken.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/memory_snapshot.h"

namespace shardscope {

struct BlockSums {
  std::int64_t count = 0;
  Bytes size;       ///< rounded
  Bytes requested;  ///< of blocks that are not inactive
};

struct SegmentSums {
  std::int64_t count = 0;
  Bytes total;
};

struct SnapshotStream {
  std::int64_t segments = 0;
  Bytes reserved;
  Bytes active;  ///< rounded
  Bytes active_requested;
};

/// Active blocks whose innermost Python frame is the same.
struct BlockOwner {
  std::string frame;  ///< empty: none
  BlockSums blocks;
};

/// Of one device's segments. "reserved" is what segments hold, "active" in use or still waited for.
struct SnapshotState {
  SegmentSums reserved;
  std::optional<Bytes> allocated,
      active;  ///< rounded, as all segments say; torch's profiler's do not
  std::array<BlockSums, snapshot_block_states> by_state;
  std::map<std::string, SegmentSums> by_type;  ///< "small", "large"; "?": not said
  std::map<std::optional<PoolId>, SegmentSums> by_pool;
  std::map<std::int64_t, SnapshotStream> by_stream;  ///< by handle
  std::int64_t expandable_segments = 0;
  std::int64_t leftover_requests =
      0;  ///< inactive blocks that say more was requested than they hold
  Bytes largest_inactive;
  std::vector<BlockOwner> owners;  ///< of active blocks; most requested first, then by frame
};

SnapshotState snapshot_state(const MemorySnapshot& snapshot, std::int64_t device);

/// Segments that only one of two snapshots of a run has, by address and size, and their blocks.
struct SegmentChanges {
  std::vector<std::int64_t> only_before, only_after;  ///< addresses, in the order of the files
  std::array<BlockSums, snapshot_block_states> before_by_state, after_by_state;
};
SegmentChanges segment_changes(const MemorySnapshot& before, const MemorySnapshot& after);

}  // namespace shardscope

// What an allocator did, played again from the events of a memory snapshot: memory over time, its
// peaks, and what was alive there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/import/memory_snapshot.h"

namespace shardscope {

/// Bytes as they were requested, except for segments. "allocated" lasts until a block is freed,
/// "active" until no stream waits for it any more.
struct SnapshotTotals {
  Bytes active;
  Bytes allocated;  ///< 0 throughout where it cannot be told (`SnapshotReplay::knows_allocated`)
  Bytes reserved;
  bool operator==(const SnapshotTotals&) const = default;
};

/// What was there before the first event: blocks whose end is in the events, or at the end of them,
/// and whose begin is not.
struct SnapshotBaseline {
  SnapshotTotals totals;
  std::int64_t freed_later = 0;
  std::int64_t alive_at_end = 0;
  std::int64_t alive_with_frames = 0;  ///< of those: recorded, so that their events were dropped
};

/// A highest value and after which event it was reached first; -1: before all of them.
struct SnapshotPeak {
  Bytes bytes;
  std::int64_t event = -1;
  bool operator==(const SnapshotPeak&) const = default;
};

struct LiveBlock {
  Bytes size;  ///< as requested
  std::int64_t address = 0;
  std::uint32_t stream = 0;  ///< index into MemorySnapshot::streams
  std::uint32_t stack = no_stack;
  std::optional<std::uint32_t> event;  ///< that allocated it; none: before the first
};

struct SnapshotReplay {
  SnapshotAction completion = SnapshotAction::free_completed;  ///< what ends a block
  bool knows_allocated = true;  ///< false where free_requested was left out of the history
  SnapshotBaseline baseline;
  std::vector<SnapshotTotals> after;  ///< each event
  SnapshotPeak peak_active, peak_allocated, peak_reserved;
  std::int64_t without_end = 0;  ///< allocated and neither freed nor there at the end
  SnapshotTotals end;
  Bytes active_in_segments, reserved_in_segments;  ///< what the snapshot's segments say of the end

  SnapshotTotals totals_after(std::int64_t event) const {
    return event < 0 ? baseline.totals : after[static_cast<std::size_t>(event)];
  }
  bool agrees_with_segments() const {
    return end.active == active_in_segments && end.reserved == reserved_in_segments;
  }
};

/// Plays the events of one device. Where no free_completed was recorded, free_requested ends a
/// block.
SnapshotReplay replay(const MemorySnapshot& snapshot, std::int64_t device);

/// Blocks that are alive after an event of `device` (-1: before the first), by falling size, then
/// address.
std::vector<LiveBlock> live_blocks(const MemorySnapshot& snapshot, std::int64_t device,
                                   std::int64_t event);

}  // namespace shardscope

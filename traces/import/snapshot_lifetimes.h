// The allocations of a memory snapshot, each from its begin to its end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/import/memory_snapshot.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope {

struct BlockLifetime {
  LiveBlock block;                   ///< `block.event` allocated it; none: before the first event
  std::optional<std::uint32_t> end;  ///< the event that freed it; none: alive at the end
};

/// All of one device in the order of their begins, those from before the first event first. An
/// allocation at an address that is taken ends the block that was there. O(n log n) in the events.
std::vector<BlockLifetime> block_lifetimes(const MemorySnapshot& snapshot, std::int64_t device);

}  // namespace shardscope

// Two memory snapshots against each other: which allocations grew.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "traces/held_sum.h"
#include "traces/import/memory_snapshot.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope {

/// Blocks of a snapshot that are compared: those alive at one instant.
struct LiveBlocks {
  const MemorySnapshot& snapshot;
  std::span<const LiveBlock> blocks;
};

enum class GrowthBy : std::uint8_t {
  frame,           ///< the first useful frame (`innermost_telling_frame`)
  frame_and_size,  ///< and the size of one block
};

struct MemoryGrowth {
  std::string frame;  ///< "": none was recorded
  Bytes block;        ///< size of one block; 0 where sizes are summed
  std::int64_t blocks_before = 0, blocks_after = 0;
  Bytes before, after;  ///< as requested
  Bytes growth() const { return held_sum(after, held_negative(before)); }
  bool operator==(const MemoryGrowth&) const = default;
};

/// What grew most first, what shrank most last; equal ones by frame, then by size.
std::vector<MemoryGrowth> memory_growth(const LiveBlocks& before, const LiveBlocks& after,
                                        GrowthBy by);

}  // namespace shardscope

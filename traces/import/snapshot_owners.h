// Whose the blocks are that a memory snapshot shows: by the code that asked for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "traces/import/memory_snapshot.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope {

/// Blocks that have something in common.
struct MemoryOwner {
  std::string name;
  std::int64_t blocks = 0;
  Bytes bytes;  ///< as requested
  bool operator==(const MemoryOwner&) const = default;
};

/// By a frame of their allocation, which `frame_of` picks from the stack; the name is empty where
/// there is none. Most bytes first, then by name.
std::vector<MemoryOwner> owners_by_frame(
    const MemorySnapshot& snapshot, std::span<const LiveBlock> blocks,
    std::string (*frame_of)(const MemorySnapshot&, std::uint32_t stack) = innermost_telling_frame);

}  // namespace shardscope

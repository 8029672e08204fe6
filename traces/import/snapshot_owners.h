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

/// By the innermost Python frame of their allocation; the name is empty where there is none. Most
/// bytes first, then by name.
std::vector<MemoryOwner> owners_by_frame(const MemorySnapshot& snapshot,
                                         std::span<const LiveBlock> blocks);

}  // namespace shardscope

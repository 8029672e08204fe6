// Memory of a snapshot as stacks of a flame tree: by category, then by the code that asked for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/flame.h"
#include "traces/import/memory_snapshot.h"

namespace shardscope {

/// A stack's frames as text, the outermost first; of very deep stacks the 200 innermost.
std::vector<std::string> outer_frames(const MemorySnapshot& snapshot, std::uint32_t stack);

/// Bytes of the device's blocks when most was active: category ("unknown" where no rule fits), then
/// frames.
std::vector<FlameStack> snapshot_stacks(const MemorySnapshot& snapshot, std::int64_t device);

}  // namespace shardscope

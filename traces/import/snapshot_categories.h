// What the memory of a snapshot is for, by rules over the frames of its allocations.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule.h"
#include "traces/import/memory_snapshot.h"
#include "traces/import/snapshot_owners.h"

namespace shardscope {

/// A frame whose file ends in `file` and whose function has `function` in its name (empty: any).
struct FrameRule {
  std::string_view file, function;
  MemoryCategory category;
};

/// The first rule that a frame of the stack fits decides. Names of files and functions are those of
/// PyTorch 2.0 to 2.15.
std::span<const FrameRule> frame_rules();

/// None where no rule fits; "unknown" is never guessed away.
std::optional<MemoryCategory> category_of(const MemorySnapshot& snapshot, std::uint32_t stack);

/// By category, most bytes first: the profiler's own, where the snapshot was made by it, else by
/// the rules; "unknown" for the rest.
std::vector<MemoryOwner> owners_by_category(const MemorySnapshot& snapshot, std::int64_t device,
                                            std::span<const LiveBlock> blocks);

}  // namespace shardscope

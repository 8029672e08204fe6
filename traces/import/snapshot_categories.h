// What the memory of a snapshot is for, by rules over the frames of its allocations.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/schedule/schedule.h"
#include "traces/import/memory_snapshot.h"
#include "traces/import/snapshot_owners.h"

namespace shardscope {

/// A frame whose file ends in `file` and whose function has `function` in its name (empty: any).
struct FrameRule {
  std::string file, function;
  MemoryCategory category = MemoryCategory::parameters;
  bool operator==(const FrameRule&) const = default;
};

/// The first rule that a frame of the stack fits decides.
using FrameRules = std::vector<FrameRule>;

/// Names of files and functions are those of PyTorch 2.0 to 2.15.
const FrameRules& frame_rules();

/// None where no rule fits; "unknown" is never guessed away.
std::optional<MemoryCategory> category_of(const MemorySnapshot& snapshot, std::uint32_t stack,
                                          const FrameRules& rules = frame_rules());

/// What each of a snapshot's blocks is for: the profiler's own word, where the snapshot was made by
/// it, else by the rules. Refers to all three.
class BlockCategories {
 public:
  BlockCategories(const MemorySnapshot& snapshot, std::int64_t device,
                  const FrameRules& rules = frame_rules());
  std::optional<MemoryCategory> of(const LiveBlock& block);

 private:
  const MemorySnapshot& snapshot_;
  const SnapshotEvents* events_;
  const FrameRules& rules_;
  bool by_profiler_ = false;
  std::unordered_map<std::uint32_t, std::optional<MemoryCategory>> of_stack_;
};

/// By category, most bytes first; "unknown" for what has none.
std::vector<MemoryOwner> owners_by_category(const MemorySnapshot& snapshot, std::int64_t device,
                                            std::span<const LiveBlock> blocks,
                                            const FrameRules& rules = frame_rules());

}  // namespace shardscope

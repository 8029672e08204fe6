#include "traces/import/snapshot_stacks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "traces/import/snapshot_categories.h"
#include "traces/import/snapshot_replay.h"

namespace shardscope {
namespace {

constexpr std::size_t most_frames = 200;

}  // namespace

std::vector<std::string> outer_frames(const MemorySnapshot& snapshot, std::uint32_t stack) {
  std::vector<std::string> frames;
  for (const std::uint32_t frame : snapshot.stack(stack)) {
    if (frames.size() == most_frames) break;
    frames.push_back(frame_text(snapshot, frame));
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

std::vector<FlameStack> snapshot_stacks(const MemorySnapshot& snapshot, std::int64_t device) {
  BlockCategories categories(snapshot, device);
  std::vector<FlameStack> stacks;
  const std::int64_t peak = replay(snapshot, device).peak_active.event;
  for (const LiveBlock& block : live_blocks(snapshot, device, peak)) {
    const std::optional<MemoryCategory> category = categories.of(block);
    FlameStack stack{.frames = {category ? std::string(name_of(*category)) : "unknown"},
                     .amount = block.size.count,
                     .look = {.category = category}};
    for (std::string& frame : outer_frames(snapshot, block.stack))
      stack.frames.push_back(std::move(frame));
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace shardscope

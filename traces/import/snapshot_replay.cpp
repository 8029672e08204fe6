#include "traces/import/snapshot_replay.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

/// A block from before the first event.
struct EarlierBlock {
  LiveBlock block;
  std::optional<std::uint32_t> freed_by;
};

struct FinalBlock {
  const SnapshotBlock* block = nullptr;
  std::uint32_t stream = 0;
};

/// The events of one device, and its blocks that are active at the end.
class DeviceHistory {
 public:
  DeviceHistory(const MemorySnapshot& snapshot, std::int64_t device)
      : events_(snapshot.events_of(device)) {
    for (const SnapshotSegment& segment : snapshot.segments) {
      if (segment.device != device) continue;
      reserved_ = held_sum(reserved_, segment.total);
      for (const SnapshotBlock& block : snapshot.blocks_of(segment)) {
        if (block.state == SnapshotBlockState::inactive) continue;
        final_blocks_[block.address] = {&block, segment.stream};
        active_ = held_sum(active_, block.requested);
      }
    }
    bool is_completed = false;
    for (std::size_t i = 0; i < count(); ++i) {
      is_requested_ |= action(i) == SnapshotAction::free_requested;
      is_completed |= action(i) == SnapshotAction::free_completed;
    }
    knows_allocated_ = is_requested_ || !is_completed;
    if (is_requested_ && !is_completed) completion_ = SnapshotAction::free_requested;
  }

  std::size_t count() const { return events_ == nullptr ? 0 : events_->count(); }
  SnapshotAction action(std::size_t i) const { return events_->action[i]; }
  std::int64_t address(std::size_t i) const { return events_->address[i]; }
  Bytes size(std::size_t i) const { return {events_->size[i]}; }
  SnapshotAction completion() const { return completion_; }
  bool knows_allocated() const { return knows_allocated_; }
  Bytes active_at_end() const { return active_; }
  Bytes reserved_at_end() const { return reserved_; }
  const std::unordered_map<std::int64_t, FinalBlock>& final_blocks() const { return final_blocks_; }

  LiveBlock block_of(std::uint32_t event, bool is_allocation) const {
    return {.size = size(event),
            .address = address(event),
            .stream = events_->stream[event],
            // A free's frames say who let it go, which is of no use.
            .stack = is_allocation ? events_->stack[event] : no_stack,
            .event = is_allocation ? std::optional(event) : std::nullopt};
  }

 private:
  const SnapshotEvents* events_;
  std::unordered_map<std::int64_t, FinalBlock> final_blocks_;  ///< by address
  Bytes active_, reserved_;
  SnapshotAction completion_ = SnapshotAction::free_completed;
  bool is_requested_ = false;
  bool knows_allocated_ = true;
};

/// Blocks that were there before the first event, and how many allocations have no end.
struct Beginning {
  std::vector<EarlierBlock> blocks;
  std::int64_t without_end = 0;
};

Beginning beginning_of(const DeviceHistory& history) {
  Beginning beginning;
  std::unordered_set<std::int64_t> live;
  for (std::uint32_t i = 0; i < history.count(); ++i) {
    if (history.action(i) == SnapshotAction::alloc) {
      live.insert(history.address(i));
    } else if (history.action(i) == history.completion() && live.erase(history.address(i)) == 0) {
      beginning.blocks.push_back({.block = history.block_of(i, false), .freed_by = i});
    }
  }
  for (const auto& [address, end] : history.final_blocks()) {
    if (live.erase(address) > 0) continue;
    const LiveBlock block{.size = end.block->requested,
                          .address = address,
                          .stream = end.stream,
                          .stack = end.block->stack,
                          .event = {}};
    beginning.blocks.push_back({.block = block, .freed_by = {}});
  }
  beginning.without_end = static_cast<std::int64_t>(live.size());
  return beginning;
}

/// Allocated bytes before the first event: freed without an allocation, or in use at the end
/// without one.
Bytes allocated_before(const DeviceHistory& history) {
  std::unordered_set<std::int64_t> allocated;
  Bytes before;
  for (std::size_t i = 0; i < history.count(); ++i) {
    if (history.action(i) == SnapshotAction::alloc) {
      allocated.insert(history.address(i));
    } else if (history.action(i) == SnapshotAction::free_requested &&
               allocated.erase(history.address(i)) == 0) {
      before = held_sum(before, history.size(i));
    }
  }
  for (const auto& [address, end] : history.final_blocks()) {
    const bool is_in_use = end.block->state == SnapshotBlockState::active_allocated;
    if (is_in_use && !allocated.contains(address)) before = held_sum(before, end.block->requested);
  }
  return before;
}

/// By how much an event changes what is reserved.
Bytes reserved_change(SnapshotAction action, Bytes size) {
  switch (action) {
    case SnapshotAction::segment_alloc:
    case SnapshotAction::segment_map:
      return size;
    case SnapshotAction::segment_free:
    case SnapshotAction::segment_unmap:
      return held_negative(size);
    default:
      return {};
  }
}

SnapshotBaseline baseline_of(const DeviceHistory& history, const Beginning& beginning) {
  SnapshotBaseline baseline;
  for (const EarlierBlock& earlier : beginning.blocks) {
    baseline.totals.active = held_sum(baseline.totals.active, earlier.block.size);
    baseline.freed_later += earlier.freed_by.has_value();
    baseline.alive_at_end += !earlier.freed_by.has_value();
    baseline.alive_with_frames += earlier.block.stack != no_stack;
  }
  if (history.knows_allocated()) baseline.totals.allocated = allocated_before(history);
  baseline.totals.reserved = history.reserved_at_end();
  for (std::size_t i = 0; i < history.count(); ++i) {
    const Bytes change = reserved_change(history.action(i), history.size(i));
    baseline.totals.reserved = held_sum(baseline.totals.reserved, held_negative(change));
  }
  return baseline;
}

void apply(const DeviceHistory& history, std::size_t event, SnapshotTotals& totals) {
  const SnapshotAction action = history.action(event);
  const Bytes size = history.size(event);
  if (action == SnapshotAction::alloc) {
    totals.active = held_sum(totals.active, size);
    if (history.knows_allocated()) totals.allocated = held_sum(totals.allocated, size);
  }
  if (action == history.completion()) totals.active = held_sum(totals.active, held_negative(size));
  if (action == SnapshotAction::free_requested)
    totals.allocated = held_sum(totals.allocated, held_negative(size));
  totals.reserved = held_sum(totals.reserved, reserved_change(action, size));
}

void raise(SnapshotPeak& peak, Bytes bytes, std::size_t event) {
  if (bytes > peak.bytes) peak = {bytes, static_cast<std::int64_t>(event)};
}

}  // namespace

SnapshotReplay replay(const MemorySnapshot& snapshot, std::int64_t device) {
  const DeviceHistory history(snapshot, device);
  const Beginning beginning = beginning_of(history);
  SnapshotReplay replay{.completion = history.completion(),
                        .knows_allocated = history.knows_allocated(),
                        .baseline = baseline_of(history, beginning),
                        .without_end = beginning.without_end,
                        .active_in_segments = history.active_at_end(),
                        .reserved_in_segments = history.reserved_at_end()};
  SnapshotTotals totals = replay.baseline.totals;
  replay.peak_active.bytes = totals.active;
  replay.peak_allocated.bytes = totals.allocated;
  replay.peak_reserved.bytes = totals.reserved;
  replay.after.reserve(history.count());
  for (std::size_t i = 0; i < history.count(); ++i) {
    apply(history, i, totals);
    replay.after.push_back(totals);
    raise(replay.peak_active, totals.active, i);
    raise(replay.peak_allocated, totals.allocated, i);
    raise(replay.peak_reserved, totals.reserved, i);
  }
  replay.end = totals;
  return replay;
}

std::vector<LiveBlock> live_blocks(const MemorySnapshot& snapshot, std::int64_t device,
                                   std::int64_t event) {
  const DeviceHistory history(snapshot, device);
  std::unordered_map<std::int64_t, LiveBlock> live;  // by address
  for (const EarlierBlock& earlier : beginning_of(history).blocks)
    live.emplace(earlier.block.address, earlier.block);
  const auto end = std::min(history.count(), static_cast<std::size_t>(event + 1));
  for (std::uint32_t i = 0; i < end; ++i) {
    if (history.action(i) == SnapshotAction::alloc)
      live[history.address(i)] = history.block_of(i, true);
    if (history.action(i) == history.completion()) live.erase(history.address(i));
  }
  std::vector<LiveBlock> blocks;
  for (const auto& [address, block] : live) blocks.push_back(block);
  std::sort(blocks.begin(), blocks.end(), [](const LiveBlock& a, const LiveBlock& b) {
    return a.size != b.size ? a.size > b.size : a.address < b.address;
  });
  return blocks;
}

}  // namespace shardscope

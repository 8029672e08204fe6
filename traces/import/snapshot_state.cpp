#include "traces/import/snapshot_state.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

void add(SegmentSums& sums, Bytes total) {
  ++sums.count;
  sums.total = held_sum(sums.total, total);
}

void add(BlockSums& sums, const SnapshotBlock& block) {
  const bool is_active = block.state != SnapshotBlockState::inactive;
  ++sums.count;
  sums.size = held_sum(sums.size, block.size);
  if (is_active) sums.requested = held_sum(sums.requested, block.requested);
}

BlockSums& of_state(std::array<BlockSums, snapshot_block_states>& sums, SnapshotBlockState state) {
  return sums[static_cast<std::size_t>(state)];
}

/// The sum stays unknown as soon as one segment does not say.
void add(std::optional<Bytes>& sum, const std::optional<Bytes>& bytes) {
  if (sum && bytes) {
    sum = held_sum(*sum, *bytes);
  } else {
    sum.reset();
  }
}

void add_blocks(std::span<const SnapshotBlock> blocks, SnapshotState& state, SnapshotStream& stream,
                std::unordered_map<std::uint32_t, BlockSums>& by_stack) {
  for (const SnapshotBlock& block : blocks) {
    add(of_state(state.by_state, block.state), block);
    if (block.state == SnapshotBlockState::inactive) {
      state.leftover_requests += block.requested > block.size;
      state.largest_inactive = std::max(state.largest_inactive, block.size);
      continue;
    }
    stream.active = held_sum(stream.active, block.size);
    stream.active_requested = held_sum(stream.active_requested, block.requested);
    add(by_stack[block.stack], block);
  }
}

std::vector<BlockOwner> owners_of(const MemorySnapshot& snapshot,
                                  const std::unordered_map<std::uint32_t, BlockSums>& by_stack) {
  std::map<std::string, BlockSums> by_frame;
  for (const auto& [stack, sums] : by_stack) {
    BlockSums& of_frame = by_frame[innermost_python_frame(snapshot, stack)];
    of_frame.count += sums.count;
    of_frame.size = held_sum(of_frame.size, sums.size);
    of_frame.requested = held_sum(of_frame.requested, sums.requested);
  }
  std::vector<BlockOwner> owners;
  for (const auto& [frame, sums] : by_frame) owners.push_back({frame, sums});
  std::stable_sort(owners.begin(), owners.end(), [](const BlockOwner& a, const BlockOwner& b) {
    return a.blocks.requested > b.blocks.requested;
  });
  return owners;
}

using SegmentKeys = std::set<std::pair<std::int64_t, std::int64_t>>;

SegmentKeys keys_of(const MemorySnapshot& snapshot) {
  SegmentKeys keys;
  for (const SnapshotSegment& segment : snapshot.segments)
    keys.emplace(segment.address, segment.total.count);
  return keys;
}

void add_missing(const MemorySnapshot& snapshot, const SegmentKeys& other,
                 std::vector<std::int64_t>& addresses,
                 std::array<BlockSums, snapshot_block_states>& by_state) {
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (other.contains({segment.address, segment.total.count})) continue;
    addresses.push_back(segment.address);
    for (const SnapshotBlock& block : snapshot.blocks_of(segment))
      add(of_state(by_state, block.state), block);
  }
}

}  // namespace

SnapshotState snapshot_state(const MemorySnapshot& snapshot, std::int64_t device) {
  SnapshotState state{.allocated = Bytes{}, .active = Bytes{}};
  std::unordered_map<std::uint32_t, BlockSums> by_stack;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device) continue;
    SnapshotStream& stream = state.by_stream[snapshot.streams[segment.stream]];
    ++stream.segments;
    stream.reserved = held_sum(stream.reserved, segment.total);
    add(state.reserved, segment.total);
    add(state.by_type[segment.type == no_name ? "?" : snapshot.names[segment.type]], segment.total);
    add(state.by_pool[segment.pool], segment.total);
    add(state.allocated, segment.allocated);
    add(state.active, segment.active);
    state.expandable_segments += segment.is_expandable;
    add_blocks(snapshot.blocks_of(segment), state, stream, by_stack);
  }
  state.owners = owners_of(snapshot, by_stack);
  return state;
}

SegmentChanges segment_changes(const MemorySnapshot& before, const MemorySnapshot& after) {
  SegmentChanges changes;
  add_missing(before, keys_of(after), changes.only_before, changes.before_by_state);
  add_missing(after, keys_of(before), changes.only_after, changes.after_by_state);
  return changes;
}

}  // namespace shardscope

// The caching allocator: blocks that come back, at once or when streams have finished.
#include <bit>
#include <utility>

#include "sim/allocator/caching_allocator.h"

namespace shardscope {

void CachingAllocator::free(MemoryBlockId id) {
  const auto index = static_cast<std::int32_t>(id.value);
  Block& block = at(index);
  block.allocated = false;
  statistics_.allocated_bytes.take(block.size);
  note(AllocatorAction::free_requested, block, block.requested);
  if (block.used_by == 0)
    free_block(index);
  else
    defer(index);
}

void CachingAllocator::record_stream(MemoryBlockId id, DeviceStream stream) {
  Block& block = at(static_cast<std::int32_t>(id.value));
  if (stream != block.stream) block.used_by |= std::uint64_t{1} << stream.value;
}

/// Records an event on every stream that uses the block: it covers all that has been issued to the
/// stream so far, the block's own work or not.
void CachingAllocator::defer(std::int32_t index) {
  const std::uint64_t used_by = std::exchange(at(index).used_by, 0);
  if (std::has_single_bit(used_by))
    return defer_on({static_cast<std::uint32_t>(std::countr_zero(used_by))}, index);
  StreamTable streams;
  for (std::uint64_t left = used_by; left != 0; left &= left - 1)
    streams.insert({static_cast<std::uint32_t>(std::countr_zero(left))});
  for (auto place = streams.next(0); place; place = streams.next(*place + 1))
    defer_on(streams[*place], index);
}

void CachingAllocator::defer_on(DeviceStream stream, std::int32_t index) {
  ++at(index).waiting;
  PendingQueue& queue = pending_[stream.value];
  if (queue.first == queue.waiting.size()) {
    queue = {};
    pending_streams_.insert(stream);
  }
  queue.waiting.push_back({events_.record(stream), index});
}

void CachingAllocator::event_done(std::int32_t index) {
  if (--at(index).waiting == 0) free_block(index);
}

void CachingAllocator::poll_events() {
  if (pending_streams_.empty()) return;
  for (auto place = pending_streams_.next(0); place;) {
    PendingQueue& queue = pending_[pending_streams_[*place].value];
    while (queue.first < queue.waiting.size() && events_.done(queue.waiting[queue.first].event))
      event_done(queue.waiting[queue.first++].block);
    if (queue.first == queue.waiting.size())
      pending_streams_.erase(pending_streams_[*place]);
    else
      ++*place;
    place = pending_streams_.next(*place);
  }
}

void CachingAllocator::wait_for_events() {
  for (auto place = pending_streams_.next(0); place; place = pending_streams_.next(*place)) {
    PendingQueue& queue = pending_[pending_streams_[*place].value];
    for (; queue.first < queue.waiting.size(); ++queue.first) {
      events_.wait(queue.waiting[queue.first].event);
      event_done(queue.waiting[queue.first].block);
    }
    pending_streams_.erase(pending_streams_[*place]);
  }
}

/// `merged_before`: free bytes of the block itself that were split off others.
void CachingAllocator::free_block(std::int32_t index, std::int64_t merged_before) {
  Block& block = at(index);
  note(AllocatorAction::free_completed, block, block.requested);
  const std::int64_t size = block.size;
  const std::int64_t merged =
      merged_before + merge(index, block.previous) + merge(index, block.next);
  insert_free(index);
  if (!segment_of(block).expandable) {
    const std::int64_t change = (is_split(block) ? block.size : 0) - merged;
    if (change > 0)
      statistics_.inactive_split_bytes.add(change);
    else
      statistics_.inactive_split_bytes.take(-change);
  }
  statistics_.active_bytes.take(size);
  statistics_.requested_bytes.take(block.requested);
}

/// Takes the neighbour `from` into `into` if both are free and alike; gives the bytes that it had.
std::int64_t CachingAllocator::merge(std::int32_t into, std::int32_t from) {
  if (!can_be_used(from) || at(into).mapped != at(from).mapped) return 0;
  if (at(from).mapped)
    erase_free(from);
  else
    erase_unmapped(from);
  Block& block = at(into);
  const Block neighbour = at(from);
  if (block.previous == from) {
    block.address = neighbour.address;
    link(into, neighbour.previous, block.next);
  } else {
    link(into, block.previous, neighbour.next);
  }
  block.size += neighbour.size;
  forget_block(from);
  return neighbour.size;
}

}  // namespace shardscope

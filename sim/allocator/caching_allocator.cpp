#include "sim/allocator/caching_allocator.h"

#include <algorithm>

#include "sim/allocator/block_sizes.h"

namespace shardscope {
namespace {

/// Larger requests are refused before anything is tried (torch 2.15, NativeCachingAllocator).
constexpr std::int64_t largest_request_bytes = std::int64_t{1} << 60;

}  // namespace

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, DeviceCapacity memory,
                                   DeviceEvents& events)
    : settings_(settings), memory_(memory), events_(events) {
  if (settings.memory_fraction < 1)
    allowed_ = static_cast<std::int64_t>(settings.memory_fraction *
                                         static_cast<double>(memory.total.count));
  make_pools(0);
  pending_.resize(max_device_streams);
}

/// Of all owners up to that one.
void CachingAllocator::make_pools(std::uint16_t owner) {
  while (pools_.size() <= owner)
    for (Pool& pool : pools_.emplace_back()) {
      pool.free.resize(max_device_streams);
      pool.unmapped.resize(max_device_streams);
    }
}

std::optional<MemoryBlockId> CachingAllocator::allocate(Bytes bytes, DeviceStream stream,
                                                        std::uint16_t owner) {
  poll_events();
  make_pools(owner);
  Request request = request_for(bytes, stream);
  request.owner = owner;
  std::int32_t found = none;
  if (bytes.count < largest_request_bytes) {
    found = take_free(request);
    if (found == none) found = take_from_device(request);
  }
  if (found != none) return hand_out(found, request);
  note_failure(request);
  return std::nullopt;
}

CachingAllocator::Request CachingAllocator::request_for(Bytes bytes, DeviceStream stream) const {
  Request request{.bytes = bytes.count, .stream = stream};
  request.size = block_bytes(std::min(bytes.count, largest_request_bytes), settings_);
  request.segment = segment_bytes(request.size, settings_);
  request.pool = request.size <= small_request_bytes ? PoolKind::small : PoolKind::large;
  return request;
}

bool CachingAllocator::counts_age() const {
  return allowed_ && settings_.garbage_collection_threshold > 0;
}

/// Source: get_free_block. An expandable block counts with all that it could grow by.
std::size_t CachingAllocator::best_fit(const FreeBlocks& free, const Request& request) const {
  std::size_t place = free.first_of(request.size);
  if (!settings_.expandable_segments || place == free.size()) return place;
  while (place + 1 < free.size() && expandable_size(free[place + 1]) < expandable_size(free[place]))
    ++place;
  return place;
}

std::int32_t CachingAllocator::take_free(const Request& request) {
  Pool& from = pool(request.pool, request.owner);
  if (counts_age()) ++from.searches;
  FreeBlocks& free = from.free[request.stream.value];
  const std::size_t place = best_fit(free, request);
  if (place == free.size()) return none;
  const std::int64_t size = free[place].size;
  if (settings_.max_split) {
    const bool oversize_request = request.size >= settings_.max_split->count;
    if (!oversize_request && size >= settings_.max_split->count) return none;
    if (oversize_request && size >= request.size + settings_.max_non_split_rounding.count)
      return none;
  }
  const auto found = static_cast<std::int32_t>(free[place].id.value);
  free.erase_at(place);
  return found;
}

/// What is tried when no cached block fits, in order.
std::int32_t CachingAllocator::take_from_device(const Request& request) {
  if (counts_age()) collect_garbage();
  std::int32_t found = new_segment(request);
  if (found == none && release_oversize(request)) found = new_segment(request);
  if (found != none) return found;
  release_cached();
  ++statistics_.retries;
  return new_segment(request);
}

bool CachingAllocator::fits_device(std::int64_t bytes) const {
  return statistics_.reserved_bytes.current + bytes <= memory_.total.count - memory_.outside.count;
}

std::int32_t CachingAllocator::new_segment(const Request& request) {
  if (allowed_ && statistics_.reserved_bytes.current + request.segment > *allowed_) return none;
  if (settings_.expandable_segments) return grow_segment(request);
  if (!fits_device(request.segment)) return none;
  const std::int32_t index = open_segment(request, request.segment, false);
  segments_.back().number = segments_made_++;
  reserve(request.pool, request.segment);
  statistics_.segments.add(1);
  ++statistics_.device_allocations;
  note(AllocatorAction::segment_allocated, at(index), request.segment);
  return index;
}

/// The one block of a new range of addresses, in no list yet.
std::int32_t CachingAllocator::open_segment(const Request& request, std::int64_t size,
                                            bool expandable) {
  segments_.push_back({.address = next_address_, .expandable = expandable});
  next_address_ += size;
  return new_block({.address = segments_.back().address,
                    .size = size,
                    .segment = static_cast<std::int32_t>(segments_.size()) - 1,
                    .stream = request.stream,
                    .owner = request.owner,
                    .pool = request.pool,
                    .mapped = !expandable});
}

bool CachingAllocator::should_split(const Block& block, std::int64_t size) const {
  const std::int64_t rest = block.size - size;
  if (block.pool == PoolKind::small || settings_.expandable_segments)
    return rest >= min_block_bytes;
  return (!settings_.max_split || size < settings_.max_split->count) && rest > small_request_bytes;
}

/// Cuts the first `size` bytes off a block that is in no list; the rest becomes free.
std::int32_t CachingAllocator::split(std::int32_t found, std::int64_t size) {
  const bool was_split = is_split(at(found));
  const std::int32_t cut = new_block({.address = at(found).address,
                                      .size = size,
                                      .segment = at(found).segment,
                                      .stream = at(found).stream,
                                      .owner = at(found).owner,
                                      .pool = at(found).pool});
  link(cut, at(found).previous, found);
  Block& rest = at(found);
  rest.address += size;
  rest.size -= size;
  insert_free(found);
  if (!segment_of(rest).expandable) {
    if (was_split)
      statistics_.inactive_split_bytes.take(size);
    else
      statistics_.inactive_split_bytes.add(rest.size);
  }
  return cut;
}

MemoryBlockId CachingAllocator::hand_out(std::int32_t found, const Request& request) {
  if (should_split(at(found), request.size))
    found = split(found, request.size);
  else if (is_split(at(found)) && !segment_of(at(found)).expandable)
    statistics_.inactive_split_bytes.take(at(found).size);
  Block& block = at(found);
  block.allocated = true;
  block.requested = request.bytes;
  note(AllocatorAction::allocate, block, request.bytes);
  statistics_.allocated_bytes.add(block.size);
  statistics_.active_bytes.add(block.size);
  statistics_.requested_bytes.add(request.bytes);
  return {static_cast<std::uint32_t>(found)};
}

void CachingAllocator::note_failure(const Request& request) {
  failure_ = OutOfMemory{
      .requested{request.bytes},
      .segment{request.segment},
      .device = memory_.total,
      .free = memory_.total - memory_.outside - Bytes{statistics_.reserved_bytes.current},
      .statistics = statistics_};
  if (request.bytes >= largest_request_bytes) return;
  ++statistics_.out_of_memories;
  if (keeps_trace_)
    trace_.push_back({.action = AllocatorAction::out_of_memory,
                      .bytes = request.size,
                      .stream = request.stream});
}

void CachingAllocator::note(AllocatorAction action, const Block& block, std::int64_t bytes) {
  if (!keeps_trace_) return;
  const Segment& segment = segment_of(block);
  trace_.push_back({.action = action,
                    .segment = segment.number,
                    .offset = block.address - segment.address,
                    .bytes = bytes,
                    .stream = block.stream});
}

std::int32_t CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<std::int32_t>(blocks_.size()) - 1;
  }
  const std::int32_t index = unused_.back();
  unused_.pop_back();
  at(index) = block;
  return index;
}

void CachingAllocator::link(std::int32_t index, std::int32_t previous, std::int32_t next) {
  at(index).previous = previous;
  at(index).next = next;
  if (previous != none) at(previous).next = index;
  if (next != none) at(next).previous = index;
}

void CachingAllocator::insert_free(std::int32_t index) {
  Block& block = at(index);
  block.age_base = pool_of(block).searches;
  free_of(block).insert({block.size, block.address, {static_cast<std::uint32_t>(index)}});
}

void CachingAllocator::erase_free(std::int32_t index) {
  const Block& block = at(index);
  free_of(block).erase({block.size, block.address, {static_cast<std::uint32_t>(index)}});
}

void CachingAllocator::reserve(PoolKind kind, std::int64_t bytes) {
  statistics_.reserved_bytes.add(bytes);
  statistics_.reserved_by_pool[static_cast<std::size_t>(kind)].add(bytes);
}

void CachingAllocator::unreserve(PoolKind kind, std::int64_t bytes) {
  statistics_.reserved_bytes.take(bytes);
  statistics_.reserved_by_pool[static_cast<std::size_t>(kind)].take(bytes);
}

}  // namespace shardscope

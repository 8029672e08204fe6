// The caching allocator: expandable segments, which map pages into one range of addresses for each
// stream and pool.
#include <algorithm>
#include <utility>

#include "sim/allocator/block_sizes.h"
#include "sim/allocator/caching_allocator.h"

namespace shardscope {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

std::int64_t CachingAllocator::page_bytes(PoolKind kind) const {
  return kind == PoolKind::small ? small_segment_bytes : settings_.large_segment.count;
}

bool CachingAllocator::can_be_used(std::int32_t index) const {
  return index != none && !at(index).allocated && at(index).waiting == 0 && at(index).used_by == 0;
}

std::int64_t CachingAllocator::expandable_size(const FreeBlock& block) const {
  const std::int32_t next = at(static_cast<std::int32_t>(block.id.value)).next;
  return block.size + (next != none && !at(next).mapped ? at(next).size : 0);
}

/// Source: try_allocate_expandable_block. The block found is taken out of the free ones; what was
/// mapped before the device ran out stays mapped.
std::int32_t CachingAllocator::grow_segment(const Request& request) {
  std::int32_t found = room_to_grow(request);
  if (!at(found).mapped && !map(found, std::min(at(found).size, request.size))) return none;
  while (at(found).size < request.size) {
    const std::int32_t next = at(found).next;
    if (!map(next, std::min(request.size - at(found).size, at(next).size))) return none;
    found = next;
  }
  erase_free(found);
  return found;
}

/// The lowest address from which free and unmapped blocks have room for the request.
std::int32_t CachingAllocator::room_to_grow(const Request& request) {
  const auto has_room = [&](std::int32_t index) {
    std::int64_t bytes = 0;
    for (; bytes < request.size && can_be_used(index); index = at(index).next)
      bytes += at(index).size;
    return bytes >= request.size;
  };
  for (std::int32_t index : pool(request.pool, request.owner).unmapped[request.stream.value]) {
    if (can_be_used(at(index).previous)) index = at(index).previous;
    if (has_room(index)) return index;
  }
  return reserve_addresses(request);
}

/// A new segment: addresses for 9/8 of the device's memory in whole pages, nothing mapped yet.
std::int32_t CachingAllocator::reserve_addresses(const Request& request) {
  const std::int64_t page = page_bytes(request.pool);
  const std::int64_t reserve = memory_.total.count + memory_.total.count / 8;
  const std::int64_t size = std::max(reserve / page * page, round_up(request.size, page));
  const std::int32_t index = open_segment(request, size, true);
  insert_unmapped(index);
  return index;
}

/// Maps whole pages for the first `size` bytes of an unmapped block, which becomes a free one.
bool CachingAllocator::map(std::int32_t index, std::int64_t size) {
  const std::int64_t mapped = round_up(size, page_bytes(at(index).pool));
  if (!fits_device(mapped)) return false;
  erase_unmapped(index);
  at(index).mapped = true;
  if (mapped < at(index).size) {
    Block rest = at(index);
    rest.address += mapped;
    rest.size -= mapped;
    rest.requested = 0;
    rest.mapped = false;
    const std::int32_t behind = new_block(rest);
    link(behind, index, at(index).next);
    at(index).size = mapped;
    insert_unmapped(behind);
  }
  if (segment_of(at(index)).number == no_segment) segment_of(at(index)).number = segments_made_++;
  note(AllocatorAction::segment_mapped, at(index), mapped);
  merge(index, at(index).previous);
  merge(index, at(index).next);
  insert_free(index);
  reserve(at(index).pool, mapped);
  ++statistics_.device_allocations;
  return true;
}

/// Takes the bytes before `address` (or from there on) off a block, as a free one of their own.
void CachingAllocator::cut_free(std::int32_t index, std::int64_t address, std::int64_t size,
                                bool before) {
  if (size == 0) return;
  Block part = at(index);
  part.address = address;
  part.size = size;
  part.requested = 0;
  const std::int32_t cut = new_block(part);
  if (before)
    link(cut, at(index).previous, index);
  else
    link(cut, index, at(index).next);
  insert_free(cut);
}

/// Gives the pages that lie wholly inside a free block back to the device.
void CachingAllocator::unmap(std::int32_t index) {
  const Block whole = at(index);
  const std::int64_t page = page_bytes(whole.pool);
  const std::int64_t start = segment_of(whole).address;
  const std::int64_t first = start + round_up(whole.address - start, page);
  const std::int64_t last = start + (whole.address + whole.size - start) / page * page;
  if (first >= last) return;
  events_.wait(whole.stream);
  erase_free(index);
  cut_free(index, whole.address, first - whole.address, true);
  cut_free(index, last, whole.address + whole.size - last, false);
  at(index).address = first;
  at(index).size = last - first;
  at(index).mapped = false;
  note(AllocatorAction::segment_unmapped, at(index), last - first);
  merge(index, at(index).previous);
  merge(index, at(index).next);
  insert_unmapped(index);
  unreserve(whole.pool, last - first);
  ++statistics_.device_frees;
}

void CachingAllocator::forget_segment(std::int32_t index) {
  erase_unmapped(index);
  forget_block(index);
}

/// By address as the driver gives it: it reserves every range below the ones before.
void CachingAllocator::insert_unmapped(std::int32_t index) {
  const auto driver_address = [&](std::int32_t b) {
    return std::pair(-at(b).segment, at(b).address);
  };
  auto& unmapped = unmapped_of(at(index));
  const auto place = std::partition_point(unmapped.begin(), unmapped.end(), [&](std::int32_t b) {
    return driver_address(b) < driver_address(index);
  });
  unmapped.insert(place, index);
}

void CachingAllocator::erase_unmapped(std::int32_t index) {
  auto& unmapped = unmapped_of(at(index));
  unmapped.erase(std::find(unmapped.begin(), unmapped.end(), index));
}

}  // namespace shardscope

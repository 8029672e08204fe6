// The caching allocator: cached memory given back to the device.
#include <algorithm>

#include "sim/allocator/caching_allocator.h"

namespace shardscope {

void CachingAllocator::empty_cache(std::uint16_t owner) {
  make_pools(owner);
  release_cached(owner);
}

/// Gives back the blocks that have gone unused for longest, until the share of memory that
/// garbage_collection_threshold allows is kept. Source: garbage_collect_cached_blocks.
void CachingAllocator::collect_garbage() {
  const auto kept = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                              static_cast<double>(*allowed_));
  std::int64_t excess = statistics_.reserved_bytes.current - kept;
  if (excess <= 0) return;
  Pool& large = pool(PoolKind::large, 0);
  const auto age = [&](const Block& b) { return large.searches - b.age_base; };
  std::vector<std::int32_t> candidates;
  std::int64_t total_age = 0;
  for (const FreeBlocks& free : large.free)
    for (const FreeBlock& found : free.all()) {
      const auto index = static_cast<std::int32_t>(found.id.value);
      if (is_split(at(index))) continue;
      candidates.push_back(index);
      total_age += age(at(index));
    }
  auto count = static_cast<std::int64_t>(candidates.size());
  for (bool any = true; any && excess > 0 && count > 0;) {
    const double threshold = static_cast<double>(total_age) / static_cast<double>(count);
    any = false;
    for (std::int32_t& index : candidates) {
      if (index == none || segment_of(at(index)).expandable) continue;
      const std::int64_t block_age = age(at(index));
      if (static_cast<double>(block_age) < threshold) continue;
      any = true;
      excess -= at(index).size;
      total_age -= block_age;
      --count;
      release(index);
      index = none;
    }
  }
}

/// With max_split_size: gives back blocks that may not be split, one that is large enough or as
/// many as it takes. Source: release_available_cached_blocks.
bool CachingAllocator::release_oversize(const Request& request) {
  if (!settings_.max_split) return false;
  const std::int64_t limit = settings_.max_split->count;
  const std::int64_t wanted = std::max(request.size, limit);
  FreeBlocks& free = pool(request.pool, request.owner).free[request.stream.value];
  const auto index_at = [&](std::size_t place) {
    return static_cast<std::int32_t>(free[place].id.value);
  };
  std::size_t place = free.first_of(wanted);
  if (place < free.size() && !segment_of(at(index_at(place))).expandable) {
    release(index_at(place));
    return true;
  }
  std::int64_t released = 0;
  while (place > 0 && released < wanted && free[place - 1].size >= limit) {
    --place;
    const std::int32_t index = index_at(place);
    if (segment_of(at(index)).expandable) continue;
    released += at(index).size;
    release(index);
  }
  return released >= wanted;
}

void CachingAllocator::release_cached(std::uint16_t owner) {
  wait_for_events();
  release_pool(pool(PoolKind::large, owner));
  release_pool(pool(PoolKind::small, owner));
}

/// Segments that are wholly free go back; of expandable ones the pages that are.
void CachingAllocator::release_pool(Pool& from) {
  std::vector<std::int32_t> whole;
  std::vector<std::int32_t> expandable;
  for (const FreeBlocks& free : from.free)
    for (const FreeBlock& found : free.all()) {
      const auto index = static_cast<std::int32_t>(found.id.value);
      if (segment_of(at(index)).expandable)
        expandable.push_back(index);
      else if (!is_split(at(index)))
        whole.push_back(index);
    }
  for (const std::int32_t index : whole) release(index);
  for (const std::int32_t index : expandable) {
    unmap(index);
    if (!is_split(at(index))) forget_segment(index);
  }
}

void CachingAllocator::release(std::int32_t index) {
  const Block& block = at(index);
  ++statistics_.device_frees;
  note(AllocatorAction::segment_freed, block, block.size);
  unreserve(block.pool, block.size);
  statistics_.segments.take(1);
  erase_free(index);
  forget_block(index);
}

}  // namespace shardscope

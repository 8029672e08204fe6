// The caching allocator: many small blocks of one size at once. The smallest free block that is
// large enough stays the smallest while it is cut, so that all that fits is cut from it.
#include <algorithm>

#include "sim/allocator/block_sizes.h"
#include "sim/allocator/caching_allocator.h"

namespace shardscope {
namespace {

/// Bytes of requests that come again and again.
class RecurringBytes {
 public:
  explicit RecurringBytes(std::span<const Bytes> requests) : sums_(requests.size() + 1) {
    for (std::size_t i = 0; i < requests.size(); ++i) sums_[i + 1] = sums_[i] + requests[i].count;
  }
  /// Of those from `begin` on, up to `end`.
  std::int64_t between(std::int64_t begin, std::int64_t end) const {
    return up_to(end) - up_to(begin);
  }

 private:
  std::int64_t up_to(std::int64_t end) const {
    const auto count = static_cast<std::int64_t>(sums_.size()) - 1;
    return end / count * sums_.back() + sums_[static_cast<std::size_t>(end % count)];
  }
  std::vector<std::int64_t> sums_;
};

}  // namespace

bool CachingAllocator::can_cut_runs(const Request& request, std::int64_t blocks) const {
  if (settings_.expandable_segments || settings_.max_split || counts_age() || keeps_trace_)
    return false;
  if (request.pool != PoolKind::small || !pending_streams_.empty()) return false;
  const std::int64_t of_segment = request.segment / request.size;
  const std::int64_t most = (blocks + of_segment - 1) / of_segment * request.segment;
  const std::int64_t reserved = statistics_.reserved_bytes.current;
  return fits_device(most) && (!allowed_ || reserved + most <= *allowed_);
}

std::vector<CachingAllocator::BlockRun> CachingAllocator::allocate_alike(
    std::span<const Bytes> requests, std::int64_t times, DeviceStream stream) {
  Request request = request_for(requests.front(), stream);
  const auto blocks = static_cast<std::int64_t>(requests.size()) * times;
  const bool alike = std::ranges::all_of(
      requests, [&](Bytes bytes) { return request_for(bytes, stream).size == request.size; });
  if (!alike || !can_cut_runs(request, blocks)) return {};
  const RecurringBytes requested(requests);
  const std::int64_t size = request.size;
  std::vector<BlockRun> runs;
  for (std::int64_t done = 0; done < blocks;) {
    request.size = size;
    std::int32_t found = take_free(request);
    if (found == none) found = new_segment(request);
    const std::int64_t count = std::min(blocks - done, at(found).size / size);
    request.size = count * size;
    request.bytes = requested.between(done, done + count);
    // The first block leaves all others free, which the next ones take.
    const std::int64_t left = is_split(at(found)) ? 0 : request.size - size;
    statistics_.inactive_split_bytes.add(left);
    runs.push_back({hand_out(found, request), count});
    statistics_.inactive_split_bytes.take(left);
    done += count;
  }
  return runs;
}

void CachingAllocator::free_run(const BlockRun& run) {
  const auto index = static_cast<std::int32_t>(run.id.value);
  Block& block = at(index);
  block.allocated = false;
  statistics_.allocated_bytes.take(block.size);
  // All but the last one, which may give a whole segment back.
  const std::int64_t others = block.size / run.blocks * (run.blocks - 1);
  statistics_.inactive_split_bytes.add(others);
  free_block(index, others);
}

std::vector<MemoryBlockId> CachingAllocator::cut_run(const BlockRun& run,
                                                     std::span<const Bytes> requested) {
  const auto last = static_cast<std::int32_t>(run.id.value);
  const std::int64_t size = at(last).size / run.blocks;
  std::vector<MemoryBlockId> blocks;
  for (std::size_t i = 0; i + 1 < requested.size(); ++i) {
    Block cut = at(last);
    cut.size = size;
    cut.requested = requested[i].count;
    const std::int32_t index = new_block(cut);
    link(index, at(last).previous, last);
    at(last).address += size;
    at(last).size -= size;
    at(last).requested -= requested[i].count;
    blocks.push_back({static_cast<std::uint32_t>(index)});
  }
  blocks.push_back(run.id);
  return blocks;
}

}  // namespace shardscope

#include "sim/allocator/allocator_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/allocator/caching_allocator.h"

namespace shardscope {
namespace {

constexpr std::array<std::string_view, 8> action_names{
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom"};
constexpr std::array<std::string_view, 3> state_names{"active_allocated", "active_pending_free",
                                                      "inactive"};

/// "32.00 MiB", as PyTorch writes sizes.
std::string torch_size(Bytes bytes) {
  const auto count = static_cast<double>(bytes.count);
  if (bytes <= 1024_B) return fmt::format("{} bytes", bytes.count);
  if (bytes <= 1_MiB) return fmt::format("{:.2f} KiB", count / 1024.0);
  if (bytes <= 1_GiB) return fmt::format("{:.2f} MiB", count / 1048576.0);
  return fmt::format("{:.2f} GiB", count / 1073741824.0);
}

}  // namespace

std::string_view name_of(AllocatorAction action) {
  return action_names[static_cast<std::size_t>(action)];
}

std::string_view name_of(BlockState state) { return state_names[static_cast<std::size_t>(state)]; }

std::string message_of(const OutOfMemory& failure) {
  const std::int64_t allocated = failure.statistics.allocated_bytes.current;
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but "
      "unallocated. If reserved but unallocated memory is large try setting "
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation. ",
      torch_size(failure.segment), torch_size(failure.device), torch_size(failure.free),
      torch_size({allocated}), torch_size({failure.statistics.reserved_bytes.current - allocated}));
}

SegmentSnapshot CachingAllocator::segment_from(std::int32_t head) const {
  SegmentSnapshot segment{.stream = at(head).stream,
                          .pool = at(head).pool,
                          .number = segment_of(at(head)).number,
                          .size = {},
                          .blocks = {}};
  for (std::int32_t index = head; index != none && at(index).mapped; index = at(index).next) {
    const Block& block = at(index);
    const BlockState state = block.allocated     ? BlockState::allocated
                             : block.waiting > 0 ? BlockState::pending_free
                                                 : BlockState::inactive;
    segment.size += {block.size};
    segment.blocks.push_back({{block.size}, {block.requested}, state});
  }
  return segment;
}

std::vector<SegmentSnapshot> CachingAllocator::segments() const {
  std::vector<bool> unused(blocks_.size());
  for (const std::int32_t index : unused_) unused[static_cast<std::size_t>(index)] = true;
  std::vector<std::pair<std::int64_t, SegmentSnapshot>> by_address;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& head = blocks_[i];
    const bool first = head.previous == none || !at(head.previous).mapped;
    if (!unused[i] && head.mapped && first)
      by_address.emplace_back(head.address, segment_from(static_cast<std::int32_t>(i)));
  }
  std::sort(by_address.begin(), by_address.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<SegmentSnapshot> segments;
  for (auto& [address, segment] : by_address) segments.push_back(std::move(segment));
  return segments;
}

}  // namespace shardscope

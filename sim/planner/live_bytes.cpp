#include "sim/planner/live_bytes.h"

#include <algorithm>

#include "sim/allocator/block_sizes.h"

namespace shardscope::planner {
namespace {

/// Most have one copy, and need no division.
Bytes blocks_of(const Buffer& buffer) {
  static constexpr AllocatorSettings usual;
  if (buffer.copies == 1) return {block_bytes(buffer.bytes.count, usual)};
  return Bytes{block_bytes(buffer.copy_bytes().count, usual)} * buffer.copies;
}

}  // namespace

LiveChange LiveBytes::pass(IndexRange actions) {
  go_to(actions.begin);
  const Bytes before = live_;
  most_ = live_;
  go_to(actions.end);
  return {.change = live_ - before, .most = most_ - before};
}

void LiveBytes::go_to(std::uint32_t end) {
  for (; next_ < end; ++next_) {
    const HostAction& action = schedule_.program.actions[next_];
    const bool allocates = action.kind == HostActionKind::allocate;
    if (!allocates && action.kind != HostActionKind::free) continue;
    const Buffer& buffer = schedule_.buffers[action.subject];
    const Bytes blocks = blocks_of(buffer);
    live_ = allocates ? live_ + blocks : live_ - blocks;
    most_ = std::max(most_, live_);
  }
}

}  // namespace shardscope::planner

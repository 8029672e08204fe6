#include "backend/executor/arena_guard.h"

#include <algorithm>

namespace shardscope {
namespace {

constexpr std::byte poison{0xFF};
constexpr std::byte canary{0xC5};

bool is_intact(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == canary; });
}

}  // namespace

ArenaGuard::ArenaGuard(const Schedule& schedule, const ArenaLayout& layout,
                       std::span<std::byte> arena)
    : schedule_(schedule), layout_(layout), arena_(arena) {
  std::ranges::fill(arena_, poison);
  for (std::size_t b = 0; b < schedule_.buffers.size(); ++b) {
    if (schedule_.buffers[b].allocated_by || schedule_.buffers[b].on_host) continue;
    const BufferId id = BufferId::of(b);
    persistent_.push_back(id);
    std::ranges::fill(arena_.subspan(layout_.offset[b].count, schedule_.buffers[b].bytes.count),
                      std::byte{0});
    became_live(id);
  }
}

std::span<std::byte> ArenaGuard::canary_of(BufferId buffer) const {
  const Bytes end = layout_.offset[buffer.value] + schedule_.at(buffer).bytes;
  return arena_.subspan(end.count, canary_bytes.count);
}

void ArenaGuard::became_live(BufferId buffer) { std::ranges::fill(canary_of(buffer), canary); }

bool ArenaGuard::became_dead(BufferId buffer) {
  const bool intact = is_intact(canary_of(buffer));
  const Bytes bytes = schedule_.at(buffer).bytes + canary_bytes;
  std::ranges::fill(arena_.subspan(layout_.offset[buffer.value].count, bytes.count), poison);
  return intact;
}

std::optional<BufferId> ArenaGuard::damaged_persistent() const {
  const auto damaged =
      std::ranges::find_if(persistent_, [&](BufferId id) { return !is_intact(canary_of(id)); });
  return damaged == persistent_.end() ? std::nullopt : std::optional(*damaged);
}

}  // namespace shardscope

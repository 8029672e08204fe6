#include <algorithm>
#include <numeric>

#include "core/schedule.h"

namespace shardscope {
namespace {

constexpr std::int64_t alignment = 64;  // a cache line, and the widest vector

std::int64_t aligned(std::int64_t n) { return (n + alignment - 1) / alignment * alignment; }

/// First and last operation during which a buffer is live.
struct Life {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

struct Placed {
  Life life;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The lowest hole of `size` bytes among `neighbours` (sorted by begin); the smallest hole that
/// fits, to leave large ones.
std::int64_t best_hole(const std::vector<Placed>& neighbours, std::int64_t size) {
  std::int64_t best = -1;
  std::int64_t best_size = 0;
  std::int64_t free_from = 0;
  for (const Placed& placed : neighbours) {
    const std::int64_t hole = placed.begin - free_from;
    if (hole >= size && (best < 0 || hole < best_size)) best = free_from, best_size = hole;
    free_from = std::max(free_from, placed.end);
  }
  return best < 0 ? free_from : best;
}

}  // namespace

ArenaLayout arena_layout(const Schedule& schedule, Bytes gap) {
  const std::size_t count = schedule.buffers.size();
  const auto last_operation =
      static_cast<std::uint32_t>(schedule.operations.empty() ? 0 : schedule.operations.size() - 1);
  std::vector<Life> lives(count);
  for (std::size_t b = 0; b < count; ++b) {
    const Buffer& buffer = schedule.buffers[b];
    lives[b] = {buffer.allocated_by ? buffer.allocated_by.value : 0,
                buffer.freed_by ? buffer.freed_by.value : last_operation};
  }
  // Largest first, then longest-lived: the classic order for this packing; ties by id keep it
  // reproducible.
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto length = [&](std::size_t i) { return lives[i].last - lives[i].first; };
    const Bytes bytes_a = schedule.buffers[a].bytes;
    const Bytes bytes_b = schedule.buffers[b].bytes;
    return bytes_a != bytes_b ? bytes_a > bytes_b : length(a) > length(b);
  });

  ArenaLayout layout;
  layout.offset.resize(count);
  std::vector<Placed> placed;  // sorted by begin
  std::vector<Placed> neighbours;
  for (std::size_t b : order) {
    const std::int64_t size = aligned(schedule.buffers[b].bytes.count + gap.count);
    neighbours.clear();
    for (const Placed& other : placed)
      if (other.life.meets(lives[b])) neighbours.push_back(other);
    const std::int64_t begin = best_hole(neighbours, size);
    const Placed mine{lives[b], begin, begin + size};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), mine,
                         [](const Placed& x, const Placed& y) { return x.begin < y.begin; }),
        mine);
    layout.offset[b] = {begin};
    layout.size = std::max(layout.size, Bytes{mine.end});
  }
  return layout;
}

}  // namespace shardscope

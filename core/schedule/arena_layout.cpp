#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {
namespace {

constexpr std::int64_t alignment = 64;  // a cache line, and the widest vector

std::int64_t aligned(std::int64_t n) { return (n + alignment - 1) / alignment * alignment; }

/// First and last operation during which a buffer is live.
struct Life {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// What has its place, sorted by begin. Lives have an array of their own: each new item is compared
/// with all of them.
class PlacedItems {
 public:
  explicit PlacedItems(std::size_t count) : meeting_(count) {
    lives_.reserve(count);
    extents_.reserve(count);
  }

  /// The lowest hole of `size` bytes among those that live in `life`; the smallest hole that fits,
  /// to leave large ones.
  std::int64_t best_hole(const Life& life, std::int64_t size) {
    std::int64_t best = -1;
    std::int64_t best_size = 0;
    std::int64_t free_from = 0;
    for (const std::uint32_t i : meeting(life)) {
      const std::int64_t hole = extents_[i].begin - free_from;
      if (hole >= size && (best < 0 || hole < best_size)) best = free_from, best_size = hole;
      free_from = std::max(free_from, extents_[i].end);
    }
    return best < 0 ? free_from : best;
  }

  void add(const Life& life, const Extent& extent) {
    const auto at =
        std::upper_bound(extents_.begin(), extents_.end(), extent,
                         [](const Extent& x, const Extent& y) { return x.begin < y.begin; }) -
        extents_.begin();
    lives_.insert(lives_.begin() + at, life);
    extents_.insert(extents_.begin() + at, extent);
  }

 private:
  /// Without a branch: a processor cannot predict which of them meet.
  std::span<const std::uint32_t> meeting(const Life& life) {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      meeting_[count] = i;
      const unsigned begun = lives_[i].first <= life.last ? 1 : 0;
      const unsigned alive = life.first <= lives_[i].last ? 1 : 0;
      count += begun & alive;
    }
    return {meeting_.data(), count};
  }

  std::vector<Life> lives_;
  std::vector<Extent> extents_;
  std::vector<std::uint32_t> meeting_;
};

/// What is to be packed: sizes with gap and alignment, and lives.
struct Items {
  std::vector<std::int64_t> sizes;
  std::vector<Life> lives;
  std::size_t count() const { return sizes.size(); }
};

Items items_of(const Schedule& schedule, Bytes gap) {
  const auto last =
      static_cast<std::uint32_t>(schedule.operations.empty() ? 0 : schedule.operations.size() - 1);
  Items items;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.on_host) {
      items.sizes.push_back(0);
      items.lives.emplace_back();
      continue;
    }
    items.sizes.push_back(aligned(buffer.bytes.count + gap.count));
    items.lives.push_back({buffer.allocated_by ? buffer.allocated_by.value : 0,
                           buffer.freed_by ? buffer.freed_by.value : last});
  }
  return items;
}

/// The most that lives at once: no layout is smaller.
std::int64_t lower_bound_of(const Items& items, std::size_t operations) {
  std::vector<std::int64_t> change(operations + 2, 0);
  for (std::size_t i = 0; i < items.count(); ++i) {
    change[items.lives[i].first] += items.sizes[i];
    change[items.lives[i].last + 1] -= items.sizes[i];
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (std::int64_t c : change) most = std::max(most, now += c);
  return most;
}

/// Each item in the smallest hole that fits, in the given order.
ArenaLayout pack(const Items& items, const std::vector<std::size_t>& order) {
  ArenaLayout layout;
  layout.offset.resize(items.count());
  PlacedItems placed(items.count());
  for (const std::size_t i : order) {
    const std::int64_t begin = placed.best_hole(items.lives[i], items.sizes[i]);
    const std::int64_t end = begin + items.sizes[i];
    placed.add(items.lives[i], {begin, end});
    layout.offset[i] = {begin};
    layout.size = std::max(layout.size, Bytes{end});
  }
  return layout;
}

/// Largest first, then longest-lived: the classic order for this packing; ties by id keep it
/// reproducible.
std::vector<std::size_t> by_size(const Items& items) {
  std::vector<std::size_t> order(items.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto length = [&](std::size_t i) { return items.lives[i].last - items.lives[i].first; };
    return items.sizes[a] != items.sizes[b] ? items.sizes[a] > items.sizes[b]
                                            : length(a) > length(b);
  });
  return order;
}

/// The item that reaches highest, the first in `order` of several.
std::size_t highest(const Items& items, const ArenaLayout& layout,
                    const std::vector<std::size_t>& order) {
  for (std::size_t at = 0; at < order.size(); ++at)
    if (layout.offset[order[at]].count + items.sizes[order[at]] == layout.size.count) return at;
  return 0;
}

/// How often packing is tried again; a pass costs the square of the number of buffers.
int attempts_for(std::size_t count) {
  constexpr std::int64_t budget = 50'000'000;
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(count, 1));
  return static_cast<int>(std::clamp<std::int64_t>(budget / (n * n), 4, 200));
}

}  // namespace

ArenaLayout arena_layout(const Schedule& schedule, Bytes gap) {
  const Items items = items_of(schedule, gap);
  const std::int64_t least = lower_bound_of(items, schedule.operations.size());
  std::vector<std::size_t> order = by_size(items);
  ArenaLayout best = pack(items, order);
  ArenaLayout layout = best;
  for (int attempt = attempts_for(items.count()); attempt > 0 && best.size.count > least;
       --attempt) {
    // What ended up on top found no hole: let it choose before the others.
    const std::size_t top = highest(items, layout, order);
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top),
                order.begin() + static_cast<std::ptrdiff_t>(top) + 1);
    layout = pack(items, order);
    if (layout.size < best.size) best = layout;
  }
  return best;
}

}  // namespace shardscope

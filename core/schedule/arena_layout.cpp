#include <algorithm>
#include <functional>
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
  std::uint32_t length() const { return last - first + 1; }
  bool meets(const Life& other) const {
    return (first <= other.last ? 1U : 0U) & (other.first <= last ? 1U : 0U);
  }
};

/// What is to be packed: sizes with gap and alignment, and lives.
struct Items {
  std::vector<std::int64_t> sizes;
  std::vector<Life> lives;
  std::size_t operations = 0;
  std::size_t count() const { return sizes.size(); }
};

struct PlacedItem {
  Life life;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// What has its place. A new item is compared with those in a window of time around it. Windows of
/// a level overlap by half: what lives as long as half a window, or less, lies within one. The
/// shortest half is the mean life, and each level's is twice as long as that before.
class PlacedItems {
 public:
  explicit PlacedItems(const Items& items) {
    std::uint64_t lived = 0;
    for (const Life& life : items.lives) lived += life.length();
    std::uint64_t half =
        std::max<std::uint64_t>(1, lived / std::max<std::size_t>(1, items.count()));
    for (; levels_.empty() || levels_.back().half < items.operations; half *= 2)
      levels_.push_back({half, std::vector<Window>(items.operations / half + 1)});
  }

  void clear() {
    for (Level& level : levels_)
      for (Window& window : level.windows) {
        window.items.clear();
        window.sorted = 0;
      }
  }

  /// The lowest hole of `size` bytes among those that live in `life`; the smallest hole that fits,
  /// to leave large ones.
  std::int64_t best_hole(const Life& life, std::int64_t size) {
    std::int64_t best = -1;
    std::int64_t best_size = 0;
    std::int64_t free_from = 0;
    for (const PlacedItem& item : sorted_around(life)) {
      // Without a branch: a processor cannot predict which of them meet.
      const bool meets = item.life.meets(life);
      const std::int64_t hole = (meets ? item.begin : free_from) - free_from;
      if (hole >= size && (best < 0 || hole < best_size)) best = free_from, best_size = hole;
      free_from = std::max(free_from, meets ? item.end : free_from);
    }
    return best < 0 ? free_from : best;
  }

  void add(const PlacedItem& item) {
    for (Level& level : levels_) {
      const std::uint64_t first = item.life.first / level.half;
      const std::uint64_t last = item.life.last / level.half;
      for (std::uint64_t i = first > 0 ? first - 1 : 0; i <= last; ++i)
        level.windows[i].items.push_back(item);
    }
  }

 private:
  struct Window {
    std::vector<PlacedItem> items;
    std::size_t sorted = 0;  ///< so many are sorted by begin; others came since
  };
  struct Level {
    std::uint64_t half = 1;  ///< operations of half a window
    std::vector<Window> windows;
  };

  /// At least those that meet it.
  std::span<const PlacedItem> sorted_around(const Life& life) {
    Level& level =
        *std::ranges::find_if(levels_, [&](const Level& one) { return life.length() <= one.half; });
    Window& window = level.windows[life.first / level.half];
    const auto begins_lower = [](const PlacedItem& a, const PlacedItem& b) {
      return a.begin < b.begin;
    };
    const auto came_since = window.items.begin() + static_cast<std::ptrdiff_t>(window.sorted);
    std::sort(came_since, window.items.end(), begins_lower);
    std::inplace_merge(window.items.begin(), came_since, window.items.end(), begins_lower);
    window.sorted = window.items.size();
    return window.items;
  }

  std::vector<Level> levels_;
};

Items items_of(const Schedule& schedule, Bytes gap) {
  const auto last =
      static_cast<std::uint32_t>(schedule.operations.empty() ? 0 : schedule.operations.size() - 1);
  Items items{.sizes = {}, .lives = {}, .operations = schedule.operations.size()};
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

/// No layout is smaller.
Bytes most_at_once(const Items& items) {
  std::vector<std::int64_t> change(items.operations + 2, 0);
  for (std::size_t i = 0; i < items.count(); ++i) {
    change[items.lives[i].first] += items.sizes[i];
    change[items.lives[i].last + 1] -= items.sizes[i];
  }
  Bytes now, most;
  for (const std::int64_t c : change) most = std::max(most, now += Bytes{c});
  return most;
}

/// Each item in the smallest hole that fits, in the given order. `placed` is empty again after it.
ArenaLayout pack(const Items& items, const std::vector<std::size_t>& order, PlacedItems& placed) {
  ArenaLayout layout;
  layout.offset.resize(items.count());
  for (const std::size_t i : order) {
    if (items.sizes[i] == 0) continue;
    const std::int64_t begin = placed.best_hole(items.lives[i], items.sizes[i]);
    const std::int64_t end = begin + items.sizes[i];
    placed.add({items.lives[i], begin, end});
    layout.offset[i] = {begin};
    layout.size = std::max(layout.size, Bytes{end});
  }
  placed.clear();
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

/// Packs until the arena is no larger than `enough`, or attempts are used up.
ArenaLayout packed(const Items& items, Bytes enough) {
  PlacedItems placed(items);
  std::vector<std::size_t> order = by_size(items);
  ArenaLayout best = pack(items, order, placed);
  ArenaLayout layout = best;
  for (int attempt = attempts_for(items.count()); attempt > 0 && best.size > enough; --attempt) {
    // What ended up on top found no hole: let it choose before the others.
    const std::size_t top = highest(items, layout, order);
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top),
                order.begin() + static_cast<std::ptrdiff_t>(top) + 1);
    layout = pack(items, order, placed);
    if (layout.size < best.size) best = layout;
  }
  return best;
}

}  // namespace

ArenaLayout arena_layout(const Schedule& schedule, Bytes gap) {
  const Items items = items_of(schedule, gap);
  return packed(items, most_at_once(items));
}

Bytes largest_arena(std::span<const Schedule> stages) {
  std::vector<Items> items;
  for (const Schedule& stage : stages) items.push_back(items_of(stage, {}));
  // Where most lives the arena is likely to be the largest: the others need only fit into it.
  std::ranges::stable_sort(items, std::ranges::greater(), most_at_once);
  Bytes largest;
  for (const Items& one : items)
    largest = std::max(largest, packed(one, std::max(largest, most_at_once(one))).size);
  return largest;
}

bool arenas_fit(std::span<const Schedule> stages, Bytes most) {
  return std::ranges::all_of(stages, [&](const Schedule& stage) {
    const Items items = items_of(stage, {});
    return most_at_once(items) <= most && packed(items, most).size <= most;
  });
}

}  // namespace shardscope

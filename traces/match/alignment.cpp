#include "traces/match/alignment.h"

#include <algorithm>
#include <utility>

namespace shardscope {
namespace {

using Place = std::int64_t;
using Alike = std::function<bool(std::size_t, std::size_t)>;

/// Differences after which what was found so far is kept and the search begins anew behind it.
constexpr Place most_differences = 1000;

struct Corner {
  Place x = 0, y = 0;
};

/// One search from a corner: how far each diagonal (x - y) gets with so many differences.
class Search {
 public:
  Search(Corner from, Corner to, const Alike& alike) : from_(from), to_(to), alike_(alike) {}

  /// Reaches `to`, or after `most_differences` as far as it came. Appends the pairs on the way.
  Corner run(std::vector<AlignedPair>& pairs) {
    for (Place differences = 0;; ++differences) {
      const Corner furthest = extend(differences);
      const bool arrived = furthest.x == to_.x && furthest.y == to_.y;
      if (!arrived && differences < most_differences) continue;
      walk_back(furthest, differences, pairs);
      return furthest;
    }
  }

 private:
  using Row = std::vector<Place>;  // by diagonal, from -differences in twos: the furthest x

  static Place x_of(const Row& row, Place differences, Place diagonal) {
    return row[static_cast<std::size_t>((diagonal + differences) / 2)];
  }

  /// Whether the furthest path on the diagonal comes from the one above: a step in y.
  static bool comes_down(const Row& before, Place differences, Place diagonal) {
    if (diagonal == -differences) return true;
    if (diagonal == differences) return false;
    return x_of(before, differences - 1, diagonal - 1) <
           x_of(before, differences - 1, diagonal + 1);
  }

  Place first_x(Place differences, Place diagonal) const {
    if (differences == 0) return from_.x;
    const Row& before = rows_.back();
    return comes_down(before, differences, diagonal)
               ? x_of(before, differences - 1, diagonal + 1)
               : x_of(before, differences - 1, diagonal - 1) + 1;
  }

  Corner extend(Place differences) {
    Row row(static_cast<std::size_t>(differences) + 1);
    Corner furthest = from_;
    for (Place diagonal = -differences; diagonal <= differences; diagonal += 2) {
      Place x = first_x(differences, diagonal);
      Place y = x - from_.x + from_.y - diagonal;
      while (x < to_.x && y < to_.y && y >= from_.y && is_alike(x, y)) ++x, ++y;
      row[static_cast<std::size_t>((diagonal + differences) / 2)] = x;
      const bool inside = x <= to_.x && y <= to_.y;
      if (inside && is_further({x, y}, furthest)) furthest = {x, y};
    }
    rows_.push_back(std::move(row));
    return furthest;
  }

  /// Of two that are as far, the one that leaves neither sequence behind.
  bool is_further(Corner corner, Corner than) const {
    const auto key = [&](Corner c) {
      const Place x = c.x - from_.x, y = c.y - from_.y;
      return std::pair(x + y, x > y ? y - x : x - y);
    };
    return key(corner) > key(than);
  }

  void walk_back(Corner at, Place differences, std::vector<AlignedPair>& pairs) const {
    const std::size_t begin = pairs.size();
    while (differences > 0) {
      const Place diagonal = (at.x - from_.x) - (at.y - from_.y);
      const Row& before = rows_[static_cast<std::size_t>(differences) - 1];
      const bool down = comes_down(before, differences, diagonal);
      const Place x = x_of(before, differences - 1, down ? diagonal + 1 : diagonal - 1);
      take_back(at, down ? x : x + 1, pairs);
      at = {x, x - from_.x + from_.y - (down ? diagonal + 1 : diagonal - 1)};
      --differences;
    }
    take_back(at, from_.x, pairs);
    std::reverse(pairs.begin() + static_cast<std::ptrdiff_t>(begin), pairs.end());
  }

  /// The diagonal run that ends at `at` and begins at column `x`.
  static void take_back(Corner at, Place x, std::vector<AlignedPair>& pairs) {
    while (at.x > x) {
      --at.x, --at.y;
      pairs.push_back({static_cast<std::uint32_t>(at.x), static_cast<std::uint32_t>(at.y)});
    }
  }

  bool is_alike(Place x, Place y) const {
    return alike_(static_cast<std::size_t>(x), static_cast<std::size_t>(y));
  }

  Corner from_, to_;
  const Alike& alike_;
  std::vector<Row> rows_;
};

}  // namespace

std::vector<AlignedPair> align(std::size_t first, std::size_t second, const Alike& alike) {
  const Corner end{static_cast<Place>(first), static_cast<Place>(second)};
  std::vector<AlignedPair> pairs;
  Corner at;
  while (at.x < end.x && at.y < end.y) at = Search(at, end, alike).run(pairs);
  return pairs;
}

}  // namespace shardscope

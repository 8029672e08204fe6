// Memory levels to pixel columns: which level each column shows, at every zoom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gui/data/memory_bands.h"
#include "gui/data/time_range.h"

namespace shardscope::gui {

/// Where the highest and the lowest of any stretch of values stand, without looking at all of them.
/// Built once in O(n), a stretch in O(log n).
class Extremes {
 public:
  struct Found {
    std::uint32_t highest = 0, lowest = 0;  ///< indices; the first of equal ones
  };

  Extremes() = default;
  explicit Extremes(std::vector<std::int64_t> values);

  std::size_t size() const { return values_.size(); }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  /// Of [first, last), which must not be empty.
  Found over(std::size_t first, std::size_t last) const;

 private:
  static constexpr std::size_t fan_out = 16;

  Found better(Found a, Found b) const;

  std::vector<std::int64_t> values_;
  std::vector<std::vector<Found>> layers_;  ///< of each `fan_out` of the layer below
};

/// Totals of the bands that are shown, level by level.
Extremes shown_totals(const MemoryLevels& levels, BandSet shown);

/// What a pixel column shows of the levels that are in force in it.
struct BandColumn {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t highest = none, lowest = none;  ///< indices of levels; none: there is no level

  bool empty() const { return highest == none; }
  bool operator==(const BandColumn&) const = default;
};

/// `count` columns over `range`; column i stands for the times [range.begin + i w, + w) with w =
/// range.length() / count. `begins` ascending, `end` that of the last; `totals` of the same levels.
std::vector<BandColumn> band_columns(std::span<const double> begins, double end,
                                     const Extremes& totals, TimeRange range, std::size_t count);

std::vector<double> begins_of(const MemoryLevels& levels);

}  // namespace shardscope::gui

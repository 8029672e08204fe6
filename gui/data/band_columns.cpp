#include "gui/data/band_columns.h"

#include <algorithm>

namespace shardscope::gui {

Extremes::Extremes(std::vector<std::int64_t> values) : values_(std::move(values)) {
  std::vector<Found> below;
  for (std::uint32_t i = 0; i < values_.size(); ++i) below.push_back({i, i});
  while (below.size() > fan_out) {
    std::vector<Found> layer;
    for (std::size_t i = 0; i < below.size(); ++i) {
      if (i % fan_out == 0)
        layer.push_back(below[i]);
      else
        layer.back() = better(layer.back(), below[i]);
    }
    layers_.push_back(layer);
    below = std::move(layer);
  }
}

Extremes::Found Extremes::better(Found a, Found b) const {
  return {.highest = values_[b.highest] > values_[a.highest] ? b.highest : a.highest,
          .lowest = values_[b.lowest] < values_[a.lowest] ? b.lowest : a.lowest};
}

Extremes::Found Extremes::over(std::size_t first, std::size_t last) const {
  const auto at = [&](std::size_t layer, std::size_t i) {
    return layer == 0 ? Found{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i)}
                      : layers_[layer - 1][i];
  };
  // From the left in ever larger steps, then the rest from the right, so that the order of equal
  // values is kept.
  Found left = at(0, first);
  std::vector<Found> right;
  for (std::size_t layer = 0; first < last; ++layer) {
    const bool is_top = layer == layers_.size();
    while (first < last && (is_top || first % fan_out != 0))
      left = better(left, at(layer, first++));
    while (first < last && last % fan_out != 0) right.push_back(at(layer, --last));
    first /= fan_out;
    last /= fan_out;
  }
  for (auto found = right.rbegin(); found != right.rend(); ++found) left = better(left, *found);
  return left;
}

Extremes shown_totals(const MemoryLevels& levels, BandSet shown) {
  std::vector<std::int64_t> totals;
  totals.reserve(levels.levels.size());
  for (const MemoryLevel& level : levels.levels) totals.push_back(level.bytes.total(shown).count);
  return Extremes(std::move(totals));
}

std::vector<BandColumn> band_columns(std::span<const double> begins, double end,
                                     const Extremes& totals, TimeRange range, std::size_t count) {
  std::vector<BandColumn> columns(count);
  if (begins.empty() || count == 0) return columns;
  const double width = range.length() / static_cast<double>(count);
  const auto first_from = [&](double time) {
    return static_cast<std::size_t>(std::lower_bound(begins.begin(), begins.end(), time) -
                                    begins.begin());
  };
  std::size_t from = first_from(range.begin);
  for (std::size_t i = 0; i < count; ++i) {
    const double begin = range.begin + width * static_cast<double>(i);
    const std::size_t until = first_from(range.begin + width * static_cast<double>(i + 1));
    std::size_t first = from;
    // What begins exactly here is all that is in force; else there is what began before.
    const bool is_set_here = first < begins.size() && begins[first] == begin;
    if (!is_set_here && first > 0) --first;
    if (begin < end && first < until) {
      const Extremes::Found found = totals.over(first, until);
      columns[i] = {.highest = found.highest, .lowest = found.lowest};
    }
    from = until;
  }
  return columns;
}

std::vector<double> begins_of(const MemoryLevels& levels) {
  std::vector<double> begins;
  begins.reserve(levels.levels.size());
  for (const MemoryLevel& level : levels.levels) begins.push_back(level.begin);
  return begins;
}

}  // namespace shardscope::gui

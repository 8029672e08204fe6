#include "gui/data/time_range.h"

#include <algorithm>

namespace shardscope::gui {

TimeRange clamped(TimeRange range, TimeRange limits) {
  const double length =
      std::min(std::max(range.length(), shortest_range_ns), std::max(limits.length(), 1.0));
  const double begin =
      std::clamp(range.begin, limits.begin, std::max(limits.begin, limits.end - length));
  return {.begin = begin, .end = begin + length};
}

TimeRange zoomed(TimeRange range, double factor, double centre) {
  return {.begin = centre - (centre - range.begin) * factor,
          .end = centre + (range.end - centre) * factor};
}

TimeRange panned(TimeRange range, double share) {
  const double by = range.length() * share;
  return {.begin = range.begin + by, .end = range.end + by};
}

TimeRange with_margin(TimeRange range, double share) {
  const double margin = range.length() * share;
  return {.begin = range.begin - margin, .end = range.end + margin};
}

TimeRange united(TimeRange a, TimeRange b) {
  return {.begin = std::min(a.begin, b.begin), .end = std::max(a.end, b.end)};
}

}  // namespace shardscope::gui

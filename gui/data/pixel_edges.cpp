#include "gui/data/pixel_edges.h"

#include <algorithm>
#include <cmath>

namespace shardscope::gui {

std::vector<std::int64_t> pixel_edges(TimeRange range, int pixels, const TimeMap& map) {
  std::vector<std::int64_t> edges;
  edges.reserve(static_cast<std::size_t>(pixels) + 1);
  for (int x = 0; x <= pixels; ++x) {
    const double axis = range.begin + range.length() * x / pixels;
    const auto clock = static_cast<std::int64_t>(std::floor(map.clock_of(axis)));
    edges.push_back(edges.empty() ? clock : std::max(clock, edges.back()));
  }
  return edges;
}

}  // namespace shardscope::gui

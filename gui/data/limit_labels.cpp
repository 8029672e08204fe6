#include "gui/data/limit_labels.h"

#include <algorithm>

namespace shardscope::gui {
namespace {

constexpr double off_line = 1;
constexpr double between = 12;

double top_of(const LimitLine& line, const PlaneRectangle& bounds) {
  const double below = line.y + off_line;
  if (below + line.height <= bounds.top + bounds.height) return below;
  return std::max(bounds.top, line.y - off_line - line.height);
}

}  // namespace

std::vector<PlaneRectangle> limit_label_places(const std::vector<LimitLine>& lines,
                                               const PlaneRectangle& bounds) {
  std::vector<PlaneRectangle> places;
  for (const LimitLine& line : lines) {
    PlaneRectangle place{.left = bounds.left + bounds.width - line.width,
                         .top = top_of(line, bounds),
                         .width = line.width,
                         .height = line.height};
    // Those before lie ever further to the left.
    for (const PlaneRectangle& before : places)
      if (place.meets(before)) place.left = before.left - between - place.width;
    places.push_back(place);
  }
  return places;
}

}  // namespace shardscope::gui

// Places for the labels of level lines at the right of a plot, however low the plot is.
#pragma once

#include <vector>

#include "gui/data/label_places.h"

namespace shardscope::gui {

/// A line across the plot with the size of its label, pixels.
struct LimitLine {
  double y = 0;
  double width = 0, height = 0;
};

/// For each line its label's place: below it at the right, above it where `bounds` end before, and
/// to the left of the labels that it would lie on.
std::vector<PlaneRectangle> limit_label_places(const std::vector<LimitLine>& lines,
                                               const PlaneRectangle& bounds);

}  // namespace shardscope::gui

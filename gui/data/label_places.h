// Places for labels beside points, so that none lies on another.
#pragma once

#include <optional>
#include <vector>

namespace shardscope::gui {

struct PlaneRectangle {
  double left = 0, top = 0, width = 0, height = 0;
  bool meets(const PlaneRectangle& other) const {
    return left < other.left + other.width && other.left < left + width &&
           top < other.top + other.height && other.top < top + height;
  }
  bool lies_in(const PlaneRectangle& other) const {
    return left >= other.left && top >= other.top && left + width <= other.left + other.width &&
           top + height <= other.top + other.height;
  }
  bool operator==(const PlaneRectangle&) const = default;
};

/// A point's mark with the size of its label.
struct LabelledPoint {
  double x = 0, y = 0;
  double radius = 0;  ///< of the mark, which labels do not cover
  double width = 0, height = 0;
};

/// For each point its label's place within `bounds`, none where there is no room. Earlier points
/// have the first choice. Labels keep off `obstacles`. O(n (n + obstacles)).
std::vector<std::optional<PlaneRectangle>> label_places(
    const std::vector<LabelledPoint>& points, const PlaneRectangle& bounds,
    const std::vector<PlaneRectangle>& obstacles = {});

}  // namespace shardscope::gui

#include "gui/data/label_places.h"

#include <algorithm>
#include <array>

namespace shardscope::gui {
namespace {

constexpr double gap = 3;

struct Direction {
  double x, y;  ///< of the label's middle from the point, -1 to 1
};
/// Right first, where a label is read with its point, then around.
constexpr std::array<Direction, 8> directions{
    {{1, 0}, {1, -1}, {1, 1}, {-1, 0}, {0, -1}, {0, 1}, {-1, -1}, {-1, 1}}};
/// So many label heights away, at most.
constexpr std::array<double, 5> distances{0, 0.7, 1.5, 2.5, 4};

PlaneRectangle beside(const LabelledPoint& point, Direction direction, double distance) {
  const double far = point.radius + gap + distance * point.height;
  const double x = point.x + direction.x * (far + point.width / 2);
  const double y = point.y + direction.y * (far + point.height / 2);
  return {x - point.width / 2, y - point.height / 2, point.width, point.height};
}

PlaneRectangle mark_of(const LabelledPoint& point) {
  return {point.x - point.radius, point.y - point.radius, 2 * point.radius, 2 * point.radius};
}

}  // namespace

std::vector<std::optional<PlaneRectangle>> label_places(
    const std::vector<LabelledPoint>& points, const PlaneRectangle& bounds,
    const std::vector<PlaneRectangle>& obstacles) {
  std::vector<PlaneRectangle> taken = obstacles;
  for (const LabelledPoint& point : points) taken.push_back(mark_of(point));
  std::vector<std::optional<PlaneRectangle>> places(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const double distance : distances) {
      for (const Direction& direction : directions) {
        const PlaneRectangle place = beside(points[i], direction, distance);
        const bool is_free = place.lies_in(bounds) &&
                             std::none_of(taken.begin(), taken.end(),
                                          [&](const auto& one) { return one.meets(place); });
        if (!is_free || places[i]) continue;
        places[i] = place;
        taken.push_back(place);
      }
    }
  }
  return places;
}

}  // namespace shardscope::gui

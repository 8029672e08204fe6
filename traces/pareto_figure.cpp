#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "traces/axis.h"
#include "traces/figure.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double width = 1200, height = 640;
constexpr double left = 96, right = 720, top = 96, bottom = 560;
constexpr double legend_left = 752, legend_row = 34;
constexpr double room_above = 1.12;  // of the largest value, for its label

struct Axes {
  Axis time, memory;
  Point at(const ParetoPoint& point) const {
    return {time.at(point.step.ns), memory.at(point.memory.count)};
  }
};

Axes axes_of(const std::vector<ParetoPoint>& points) {
  Duration slowest{1};
  Bytes largest{1};
  for (const ParetoPoint& point : points) {
    slowest = std::max({slowest, point.step, point.high});
    largest = std::max(largest, point.memory);
  }
  const auto stretched = [](std::int64_t value) {
    return static_cast<std::int64_t>(static_cast<double>(value) * room_above);
  };
  return {.time = time_axis(Duration{stretched(slowest.ns)}, left, right, 6),
          .memory = byte_axis(Bytes{stretched(largest.count)}, bottom, top, 6)};
}

void draw_axes(Svg& svg, const Axes& axes) {
  const Brush grid{.stroke = std::string(palette::grid)};
  for (const Tick& tick : axes.time.ticks) {
    const double x = axes.time.at(tick.value);
    svg.line({x, top}, {x, bottom}, grid);
    svg.text({x, bottom + 20}, tick.label, {.anchor = Anchor::middle});
  }
  for (const Tick& tick : axes.memory.ticks) {
    const double y = axes.memory.at(tick.value);
    svg.line({left, y}, {right, y}, grid);
    svg.text({left - 10, y + 4}, tick.label, {.anchor = Anchor::end});
  }
  svg.text({right, bottom + 44}, fmt::format("step time, {}", axes.time.unit),
           {.anchor = Anchor::end, .is_bold = true});
  svg.text({left - 60, top - 14}, fmt::format("memory of a device, {}", axes.memory.unit),
           {.is_bold = true});
}

void draw_device(Svg& svg, const Axes& axes, Bytes device) {
  if (device.count <= 0 || device.count > axes.memory.end) return;
  const double y = axes.memory.at(device.count);
  svg.line({left, y}, {right, y},
           {.stroke = std::string(palette::vermilion), .stroke_width = 1.5, .dash = "6 4"});
  svg.text({right, y - 6}, fmt::format("a device has {}", rounded_text(device)),
           {.colour = std::string(palette::vermilion), .anchor = Anchor::end, .has_halo = true});
}

void draw_front(Svg& svg, const Axes& axes, const std::vector<ParetoPoint>& points) {
  std::vector<ParetoPoint> front;
  for (const ParetoPoint& point : points)
    if (point.on_front) front.push_back(point);
  std::sort(front.begin(), front.end(),
            [](const ParetoPoint& a, const ParetoPoint& b) { return a.step < b.step; });
  std::vector<Point> line;
  for (const ParetoPoint& point : front) {
    // Between two of them the slower one is the best there is.
    if (!line.empty()) line.push_back({axes.at(point).x, line.back().y});
    line.push_back(axes.at(point));
  }
  if (line.size() > 1)
    svg.polyline(line, {.stroke = std::string(palette::blue), .stroke_width = 2, .opacity = 0.6});
}

std::string_view colour_of(const ParetoPoint& point) {
  if (point.is_given) return palette::vermilion;
  return point.on_front ? palette::blue : palette::grey;
}

/// Numbers stand right of their points, and below one another where they would overlap.
class Numbers {
 public:
  void draw(Svg& svg, Point at, const std::string& number) {
    constexpr double size = 12, line = 15, gap = 8;
    const double length = text_width(number, size);
    Rectangle box{at.x + gap, at.y - line / 2, length, line};
    while (overlaps(box)) box.x += gap;
    placed_.push_back(box);
    svg.text({box.x, box.y + line - 4}, number, {.size = size, .is_bold = true, .has_halo = true});
  }

 private:
  bool overlaps(const Rectangle& box) const {
    return std::any_of(placed_.begin(), placed_.end(), [&](const Rectangle& other) {
      return box.x < other.x + other.width + 3 && other.x < box.x + box.width + 3 &&
             box.y < other.y + other.height && other.y < box.y + box.height;
    });
  }
  std::vector<Rectangle> placed_;
};

/// Every point by its number: what it is, and its figures below.
void draw_legend(Svg& svg, const std::vector<ParetoPoint>& points) {
  double y = top + 6;
  for (const ParetoPoint& point : points) {
    svg.rectangle({legend_left, y - 9, 10, 10}, {.fill = std::string(colour_of(point))}, 5);
    const std::string name =
        fmt::format("{}{}{}", point.number, point.number.empty() ? "" : "  ", point.label);
    svg.text({legend_left + 18, y}, fitted(name, 13, width - legend_left - 30), {.is_bold = true});
    svg.text({legend_left + 18, y + 15},
             fitted(fmt::format("{}, {}{}{}", rounded_text(point.step), rounded_text(point.memory),
                                point.detail.empty() ? "" : ": ", point.detail),
                    12, width - legend_left - 30),
             {.size = 12, .colour = std::string(palette::faint_ink)});
    y += legend_row;
  }
}

std::string tooltip(const ParetoPoint& point) {
  return fmt::format("{}{}{}: {} a step ({} to {}), {}", point.label,
                     point.detail.empty() ? "" : ", ", point.detail, rounded_text(point.step),
                     rounded_text(point.low), rounded_text(point.high), rounded_text(point.memory));
}

void draw_points(Svg& svg, const Axes& axes, const std::vector<ParetoPoint>& points) {
  for (const ParetoPoint& point : points) {
    const Point at = axes.at(point);
    const std::string colour(colour_of(point));
    svg.line({axes.time.at(point.low.ns), at.y}, {axes.time.at(point.high.ns), at.y},
             {.stroke = colour, .stroke_width = 1.5, .opacity = 0.3});
    svg.rectangle({at.x - 5, at.y - 5, 10, 10}, {.fill = colour}, 5, tooltip(point));
  }
  Numbers numbers;
  for (const ParetoPoint& point : points) numbers.draw(svg, axes.at(point), point.number);
}

}  // namespace

std::string pareto_figure(const std::vector<ParetoPoint>& points, Bytes device,
                          std::string_view title) {
  Svg svg(width, height);
  const Axes axes = axes_of(points);
  svg.text({left - 60, 36}, title, {.size = 18, .is_bold = true});
  svg.text({left - 60, 58},
           "predicted; bars: bands of the step time; blue: nothing is both faster and smaller",
           {.colour = std::string(palette::faint_ink)});
  draw_axes(svg, axes);
  draw_device(svg, axes, device);
  draw_front(svg, axes, points);
  draw_points(svg, axes, points);
  draw_legend(svg, points);
  return svg.str();
}

}  // namespace shardscope

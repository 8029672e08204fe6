#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>

#include "traces/figure.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double width = 1200, height = 520, top = 128, bottom = 452;
constexpr double left = 84, right = 1184, gap = 28;  // of all panels; between two
constexpr double tick_factor_bytes = 16, tick_factor_time = 10;

/// A logarithmic axis between two powers of `factor`.
struct LogAxis {
  double factor = 10;
  int low = 0;   ///< power at `from`
  int high = 1;  ///< power at `to`
  double from = 0;
  double to = 1;

  double at(std::int64_t value) const {
    const double power =
        std::log(static_cast<double>(std::max<std::int64_t>(value, 1))) / std::log(factor);
    return from + (to - from) * (power - low) / (high - low);
  }
  std::int64_t tick(int power) const { return std::llround(std::pow(factor, power)); }
};

/// The smallest one that holds all of `values`.
LogAxis log_axis(const std::vector<std::int64_t>& values, double factor) {
  LogAxis axis{.factor = factor};
  if (values.empty()) return axis;
  const auto [least, most] = std::ranges::minmax(values);
  const auto power = [&](std::int64_t value) {
    return std::log(static_cast<double>(std::max<std::int64_t>(value, 1))) / std::log(factor);
  };
  // Rounding must not put a power of the factor beyond itself.
  axis.low = static_cast<int>(std::floor(power(least) + 1e-9));
  axis.high = std::max(axis.low + 1, static_cast<int>(std::ceil(power(most) - 1e-9)));
  return axis;
}

/// A whole number of the largest unit that divides `value`.
template <std::size_t count>
std::string whole_text(std::int64_t value, std::int64_t step,
                       const std::array<const char*, count>& units) {
  std::size_t unit = 0;
  while (unit + 1 < count && value % step == 0) {
    value /= step;
    ++unit;
  }
  return fmt::format("{} {}", value, units[unit]);
}
std::string tick_text(Bytes bytes) {
  return whole_text(bytes.count, 1024, std::array{"B", "KiB", "MiB", "GiB", "TiB"});
}
std::string tick_text(Duration time) {
  return whole_text(time.ns, 1000, std::array{"ns", "us", "ms", "s"});
}

constexpr std::array colours{palette::blue,   palette::vermilion, palette::green,
                             palette::purple, palette::orange,    palette::sky};

std::string colour_of(int ranks, const std::set<int>& all) {
  const auto place = std::distance(all.begin(), all.find(ranks));
  return std::string(colours[static_cast<std::size_t>(place) % colours.size()]);
}

/// The plot of one kind.
struct Panel {
  LogAxis bytes;
  LogAxis time;
};

void draw_frame(Svg& svg, const Panel& panel, std::string_view title, bool with_times) {
  const Brush grid{.stroke = std::string(palette::grid)};
  const std::string ink(palette::faint_ink);
  svg.text({panel.bytes.from, top - 14}, title, {.size = 14, .is_bold = true});
  for (int power = panel.bytes.low; power <= panel.bytes.high; ++power) {
    const double x = panel.bytes.at(panel.bytes.tick(power));
    svg.line({x, top}, {x, bottom}, grid);
    if (power == panel.bytes.high) continue;  // its label would run into the next panel's
    svg.text({x, bottom + 18}, tick_text(Bytes{panel.bytes.tick(power)}),
             {.size = 12, .colour = ink, .anchor = Anchor::middle});
  }
  for (int power = panel.time.low; power <= panel.time.high; ++power) {
    const double y = panel.time.at(panel.time.tick(power));
    svg.line({panel.bytes.from, y}, {panel.bytes.to, y}, grid);
    if (with_times)
      svg.text({panel.bytes.from - 10, y + 4}, tick_text(Duration{panel.time.tick(power)}),
               {.size = 12, .colour = ink, .anchor = Anchor::end});
  }
}

void draw_curve(Svg& svg, const CollectiveCurve& curve, const Panel& panel,
                const std::string& colour) {
  std::vector<Point> predicted, profiled;
  for (const CollectivePoint& point : curve.points) {
    const double x = panel.bytes.at(point.bytes.count);
    profiled.push_back({x, panel.time.at(point.profiled.value.ns)});
    if (point.predicted) predicted.push_back({x, panel.time.at(point.predicted->value.ns)});
  }
  svg.polyline(predicted, {.stroke = colour, .stroke_width = 1.5, .dash = "5 4"});
  svg.polyline(profiled, {.stroke = colour, .stroke_width = 2});
  for (const Point& at : predicted)
    svg.circle(at, 5, {.fill = "#ffffff", .stroke = colour, .stroke_width = 1.5});
  std::string said;
  for (std::size_t i = 0; i < profiled.size(); ++i) {
    svg.circle(profiled[i], 3.5, {.fill = colour});
    if (curve.points[i].choice == said) continue;
    said = curve.points[i].choice;
    svg.text({profiled[i].x + 7, profiled[i].y + 14}, said,
             {.size = 11, .colour = colour, .has_halo = true});
  }
}

void draw_legend(Svg& svg, const std::set<int>& ranks) {
  const std::string ink(palette::faint_ink);
  const double y = 72;
  svg.line({24, y}, {58, y}, {.stroke = ink, .stroke_width = 2});
  svg.circle({41, y}, 3.5, {.fill = ink});
  svg.text({66, y + 4.5}, "measured");
  svg.line({156, y}, {190, y}, {.stroke = ink, .stroke_width = 1.5, .dash = "5 4"});
  svg.circle({173, y}, 5, {.fill = "#ffffff", .stroke = ink, .stroke_width = 1.5});
  svg.text({198, y + 4.5}, "predicted for this size from what was measured of the others");
  double x = 640;
  for (const int number : ranks) {
    const std::string text = fmt::format("{} ranks", number);
    svg.rectangle({x, y - 7, 22, 13}, {.fill = colour_of(number, ranks)}, 2);
    svg.text({x + 30, y + 4.5}, text);
    x += 54 + text_width(text, 13);
  }
}

struct Extent {
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> times;
  std::set<OperationKind> kinds;
  std::set<int> ranks;
};

Extent extent_of(const std::vector<CollectiveCurve>& curves) {
  Extent extent;
  for (const CollectiveCurve& curve : curves) {
    extent.kinds.insert(curve.kind);
    extent.ranks.insert(curve.ranks);
    for (const CollectivePoint& point : curve.points) {
      extent.bytes.push_back(point.bytes.count);
      extent.times.push_back(point.profiled.value.ns);
      if (point.predicted) extent.times.push_back(point.predicted->value.ns);
    }
  }
  return extent;
}

}  // namespace

std::string collectives_figure(const std::vector<CollectiveCurve>& curves, std::string_view title) {
  const Extent extent = extent_of(curves);
  Panel panel{.bytes = log_axis(extent.bytes, tick_factor_bytes),
              .time = log_axis(extent.times, tick_factor_time)};
  panel.time.from = bottom;
  panel.time.to = top;

  Svg svg(width, height);
  svg.text({24, 38}, fitted(title, 20, width - 120), {.size = 20, .is_bold = true});
  draw_legend(svg, extent.ranks);
  const double step =
      (right - left + gap) / static_cast<double>(std::max<std::size_t>(extent.kinds.size(), 1));
  panel.bytes.from = left;
  for (const OperationKind kind : extent.kinds) {
    panel.bytes.to = panel.bytes.from + step - gap;
    draw_frame(svg, panel, name_of(kind), panel.bytes.from == left);
    for (const CollectiveCurve& curve : curves)
      if (curve.kind == kind) draw_curve(svg, curve, panel, colour_of(curve.ranks, extent.ranks));
    panel.bytes.from += step;
  }
  svg.text({(left + right) / 2, height - 16}, "bytes out of the gather, into the reduction",
           {.size = 12, .colour = std::string(palette::faint_ink), .anchor = Anchor::middle});
  return svg.str();
}

}  // namespace shardscope

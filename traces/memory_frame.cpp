#include "traces/memory_frame.h"

#include <algorithm>
#include <numeric>

#include "traces/palette.h"

namespace shardscope {
namespace {

constexpr Rectangle plot = memory_plot;
constexpr double headroom = 1.06;
constexpr double columns = plot.width;  // one level per pixel is enough
constexpr int ticks = 8;

bool is_used(const BandStack& stack, std::size_t band) {
  return std::any_of(stack.levels.begin(), stack.levels.end(),
                     [&](const BandLevel& level) { return level.by[band] > Bytes{}; });
}

}  // namespace

MemoryFrame memory_frame(Duration length, Bytes highest) {
  const auto top = static_cast<std::int64_t>(static_cast<double>(highest.count) * headroom);
  return {.time = time_axis(length, plot.x, plot.x + plot.width, ticks),
          .bytes = byte_axis({top}, plot.y + plot.height, plot.y, ticks)};
}

Bytes BandLevel::total() const { return std::accumulate(by.begin(), by.end(), Bytes{}); }

std::vector<BandLevel> thinned(const std::vector<BandLevel>& levels, Duration length) {
  if (length.ns <= 0) return levels;
  std::vector<BandLevel> result;
  std::int64_t last_column = -1;
  for (const BandLevel& level : levels) {
    const auto column = static_cast<std::int64_t>(static_cast<double>(level.time.ns) /
                                                  static_cast<double>(length.ns) * columns);
    if (column != last_column) {
      result.push_back(level);
    } else if (level.total() > result.back().total()) {
      result.back().by = level.by;
    }
    last_column = column;
  }
  return result;
}

std::vector<Point> band_edge(const BandStack& stack, const MemoryFrame& frame,
                             std::size_t through) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < stack.levels.size(); ++i) {
    const std::vector<Bytes>& by = stack.levels[i].by;
    const auto end_of_bands = by.begin() + static_cast<std::ptrdiff_t>(through + 1);
    const Bytes sum = std::accumulate(by.begin(), end_of_bands, Bytes{});
    const Duration end = i + 1 < stack.levels.size() ? stack.levels[i + 1].time : stack.length;
    const double y = frame.bytes.at(sum.count);
    points.push_back({frame.time.at(stack.levels[i].time.ns), y});
    points.push_back({frame.time.at(end.ns), y});
  }
  return points;
}

void fill_bands(Svg& svg, const BandStack& stack, const MemoryFrame& frame) {
  if (stack.levels.empty()) return;
  const double ground = frame.bytes.at(0);
  std::vector<Point> below = {{frame.time.at(stack.levels.front().time.ns), ground},
                              {frame.time.at(stack.length.ns), ground}};
  for (std::size_t band = 0; band < stack.colours.size(); ++band) {
    if (!is_used(stack, band)) continue;
    const std::vector<Point> above = band_edge(stack, frame, band);
    std::vector<Point> shape = above;
    shape.insert(shape.end(), below.rbegin(), below.rend());
    svg.polygon(shape, {.fill = stack.colours[band], .stroke = "#ffffff", .stroke_width = 0.5});
    below = above;
  }
}

void draw_memory_frame(Svg& svg, const MemoryFrame& frame, std::string_view caption) {
  const double right = plot.x + plot.width, bottom = plot.y + plot.height;
  for (const Tick& tick : frame.bytes.ticks) {
    const double y = frame.bytes.at(tick.value);
    svg.line({plot.x, y}, {right, y}, {.stroke = std::string(palette::grid)});
    svg.text({plot.x - 8, y + 4.5}, tick.label,
             {.colour = std::string(palette::faint_ink), .anchor = Anchor::end});
  }
  for (const Tick& tick : frame.time.ticks) {
    const double x = frame.time.at(tick.value);
    svg.line({x, bottom}, {x, bottom + 5}, {.stroke = std::string(palette::faint_ink)});
    svg.text({x, bottom + 21}, tick.label,
             {.colour = std::string(palette::faint_ink), .anchor = Anchor::middle});
  }
  svg.text({plot.x - 8, plot.y - 14}, frame.bytes.unit, {.anchor = Anchor::end, .is_bold = true});
  svg.text({plot.x + plot.width / 2, bottom + 45}, caption, {.anchor = Anchor::middle});
}

void draw_memory_baseline(Svg& svg) {
  const double bottom = plot.y + plot.height;
  svg.line({plot.x, bottom}, {plot.x + plot.width, bottom},
           {.stroke = std::string(palette::faint_ink)});
}

void draw_peak_flag(Svg& svg, const MemoryFrame& frame, const PeakFlag& flag) {
  const Point peak{frame.time.at(flag.time.ns), frame.bytes.at(flag.bytes.count)};
  const double flag_width = text_width(flag.label, 13) + 20;
  const double x = std::clamp(peak.x - flag_width / 2, plot.x, plot.x + plot.width - flag_width);
  const std::string ink(palette::ink);
  const std::string paper = "#ffffff";
  svg.line({peak.x, flag.y + 11}, peak, {.stroke = ink, .dash = flag.is_hollow ? "3 3" : ""});
  svg.rectangle({x, flag.y - 11, flag_width, 22},
                {.fill = flag.is_hollow ? paper : ink, .stroke = ink, .stroke_width = 1.4}, 4);
  svg.text({x + flag_width / 2, flag.y + 4.5}, flag.label,
           {.colour = flag.is_hollow ? ink : paper, .anchor = Anchor::middle, .is_bold = true});
  svg.circle(peak, 4.5, {.fill = flag.is_hollow ? paper : ink, .stroke = ink, .stroke_width = 1.8});
}

}  // namespace shardscope

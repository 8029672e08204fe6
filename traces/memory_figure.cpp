#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "traces/analysis.h"
#include "traces/axis.h"
#include "traces/figure.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double width = 1200, height = 620;
constexpr Rectangle plot{.x = 86, .y = 118, .width = 770, .height = 430};
constexpr double panel_x = 890;  // the table on the right
constexpr double headroom = 1.06;
constexpr double columns = plot.width;  // one level per pixel is enough

/// Live bytes since the step's begin; holds until the next point.
struct Level {
  Duration time;
  CategoryBytes live;
};

/// One trace's steady step.
struct Curve {
  Duration length;
  std::vector<Level> levels;
  MemoryPeak peak;
  Duration peak_time;
  std::string at_operation;
};

/// At most one level per pixel column, the highest of each, so that no peak is lost.
std::vector<Level> thinned(const std::vector<Level>& levels, Duration length) {
  if (length.ns <= 0) return levels;
  std::vector<Level> result;
  std::int64_t last_column = -1;
  for (const Level& level : levels) {
    const auto column = static_cast<std::int64_t>(static_cast<double>(level.time.ns) /
                                                  static_cast<double>(length.ns) * columns);
    if (column != last_column) {
      result.push_back(level);
    } else if (level.live.total() > result.back().live.total()) {
      result.back().live = level.live;
    }
    last_column = column;
  }
  return result;
}

Curve curve_of(const Trace& trace) {
  const std::vector<StepWindow> steps = step_windows(trace);
  const TimeWindow window = steps[steady_step(steps)].window;
  Curve curve{.length = window.length(), .peak = memory_peak(trace, window)};
  curve.peak_time = curve.peak.time - window.begin;
  if (const OperationFacts* facts = FactsTable(trace).find(curve.peak.operation))
    curve.at_operation = facts->name;
  std::vector<Level> levels;
  for (const MemorySample& sample : trace.memory) {
    if (sample.time >= window.end) break;
    if (sample.time <= window.begin) levels.clear();
    levels.push_back(
        {.time = std::max(sample.time, window.begin) - window.begin, .live = sample.live});
  }
  curve.levels = thinned(levels, curve.length);
  return curve;
}

struct Frame {
  Axis time;
  Axis bytes;
};

/// The stepped upper edge of the categories up to `through`, left to right.
std::vector<Point> edge(const Curve& curve, const Frame& frame, std::size_t through) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < curve.levels.size(); ++i) {
    Bytes sum;
    for (std::size_t c = 0; c <= through; ++c) sum += curve.levels[i].live.by[c];
    const Duration end = i + 1 < curve.levels.size() ? curve.levels[i + 1].time : curve.length;
    const double y = frame.bytes.at(sum.count);
    points.push_back({frame.time.at(curve.levels[i].time.ns), y});
    points.push_back({frame.time.at(end.ns), y});
  }
  return points;
}

bool is_used(const Curve& curve, MemoryCategory category) {
  return curve.peak.maximum[category] > Bytes{};
}

void fill_categories(Svg& svg, const Curve& curve, const Frame& frame) {
  if (curve.levels.empty()) return;
  const double ground = frame.bytes.at(0);
  std::vector<Point> below = {{frame.time.at(curve.levels.front().time.ns), ground},
                              {frame.time.at(curve.length.ns), ground}};
  for (std::size_t c = 0; c < memory_category_count; ++c) {
    if (!is_used(curve, memory_categories[c])) continue;
    const std::vector<Point> above = edge(curve, frame, c);
    std::vector<Point> band = above;
    band.insert(band.end(), below.rbegin(), below.rend());
    svg.polygon(band, {.fill = std::string(palette::of(memory_categories[c])),
                       .stroke = "#ffffff",
                       .stroke_width = 0.5});
    below = above;
  }
}

void outline_total(Svg& svg, const Curve& curve, const Frame& frame) {
  const std::vector<Point> top = edge(curve, frame, memory_category_count - 1);
  svg.polyline(top, {.stroke = "#ffffff", .stroke_width = 4.5, .opacity = 0.85});
  svg.polyline(top, {.stroke = std::string(palette::ink), .stroke_width = 1.8});
}

void draw_frame(Svg& svg, const Frame& frame) {
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
  svg.text({plot.x + plot.width / 2, bottom + 45},
           fmt::format("time since the step began, {}", frame.time.unit),
           {.anchor = Anchor::middle});
}

void draw_baseline(Svg& svg) {
  const double bottom = plot.y + plot.height;
  svg.line({plot.x, bottom}, {plot.x + plot.width, bottom},
           {.stroke = std::string(palette::faint_ink)});
}

/// A flag above the plot, with a pole down to the peak. Predicted flags are hollow, profiled ones
/// solid.
void flag_peak(Svg& svg, const Curve& curve, const Frame& frame, bool is_predicted, double y) {
  const Point peak{frame.time.at(curve.peak_time.ns), frame.bytes.at(curve.peak.total.count)};
  const std::string label = fmt::format("{} peak {}", is_predicted ? "predicted" : "profiled",
                                        rounded_text(curve.peak.total));
  const double flag_width = text_width(label, 13) + 20;
  const double x = std::clamp(peak.x - flag_width / 2, plot.x, plot.x + plot.width - flag_width);
  const std::string ink(palette::ink);
  svg.line({peak.x, y + 11}, peak, {.stroke = ink, .dash = is_predicted ? "3 3" : ""});
  svg.rectangle({x, y - 11, flag_width, 22},
                {.fill = is_predicted ? "#ffffff" : ink, .stroke = ink, .stroke_width = 1.4}, 4);
  svg.text({x + flag_width / 2, y + 4.5}, label,
           {.colour = is_predicted ? ink : "#ffffff", .anchor = Anchor::middle, .is_bold = true});
  svg.circle(peak, 4.5,
             {.fill = is_predicted ? "#ffffff" : ink, .stroke = ink, .stroke_width = 1.8});
}

/// Legend and figures at once: each category's bytes at the peak.
class PeakTable {
 public:
  PeakTable(Svg& svg, const Curve* predicted, const Curve* profiled)
      : svg_(svg), predicted_(predicted), profiled_(profiled) {}

  void draw() {
    svg_.text({panel_x, y_}, "Live at the peak", {.size = 14, .is_bold = true});
    y_ += 22;
    if (predicted_ != nullptr) header(predicted_right(), "predicted");
    if (profiled_ != nullptr) header(profiled_right, "profiled");
    y_ += 8;
    // The legend reads from the top of the stack down.
    for (auto category = memory_categories.rbegin(); category != memory_categories.rend();
         ++category)
      row(*category);
    total();
    y_ += 14;
    operation(predicted_, "predicted");
    operation(profiled_, "profiled");
  }

 private:
  static constexpr double profiled_right = 1176;
  static constexpr double row_height = 25;

  double predicted_right() const { return profiled_ != nullptr ? 1090 : profiled_right; }

  void header(double right, std::string_view title) {
    svg_.text({right, y_}, title,
              {.size = 12, .colour = std::string(palette::faint_ink), .anchor = Anchor::end});
  }
  void row(MemoryCategory category) {
    const bool is_shown = (predicted_ != nullptr && is_used(*predicted_, category)) ||
                          (profiled_ != nullptr && is_used(*profiled_, category));
    if (!is_shown) return;
    y_ += row_height;
    svg_.rectangle({panel_x, y_ - 12, 15, 15}, {.fill = std::string(palette::of(category))}, 2);
    std::string label(name_of(category));
    std::replace(label.begin(), label.end(), '_', ' ');
    svg_.text({panel_x + 23, y_}, label);
    if (predicted_ != nullptr) value(predicted_right(), predicted_->peak.at_peak[category], false);
    if (profiled_ != nullptr) value(profiled_right, profiled_->peak.at_peak[category], false);
  }
  void total() {
    y_ += 10;
    svg_.line({panel_x, y_}, {profiled_right, y_}, {.stroke = std::string(palette::faint_ink)});
    y_ += row_height - 5;
    svg_.text({panel_x + 23, y_}, "total", {.is_bold = true});
    if (predicted_ != nullptr) {
      svg_.line({panel_x, y_ - 5}, {panel_x + 16, y_ - 5},
                {.stroke = std::string(palette::ink), .stroke_width = 2});
      value(predicted_right(), predicted_->peak.total, true);
    }
    if (profiled_ != nullptr) value(profiled_right, profiled_->peak.total, true);
  }
  void value(double right, Bytes bytes, bool is_bold) {
    svg_.text({right, y_}, rounded_text(bytes), {.anchor = Anchor::end, .is_bold = is_bold});
  }
  void operation(const Curve* curve, std::string_view side) {
    if (curve == nullptr || curve->at_operation.empty()) return;
    y_ += row_height;
    svg_.text({panel_x, y_}, fmt::format("{} peak at", side),
              {.size = 12, .colour = std::string(palette::faint_ink)});
    // Names read "module kernel": a line for each, where both together are too long.
    const std::string_view name = curve->at_operation;
    const bool is_one_line = text_width(name, 12) <= profiled_right - panel_x;
    const std::size_t split = is_one_line ? name.npos : name.rfind(' ');
    small_line(name.substr(0, split));
    if (split != name.npos) small_line(name.substr(split + 1));
  }
  void small_line(std::string_view text) {
    y_ += 17;
    svg_.text({panel_x, y_}, fitted(text, 12, profiled_right - panel_x), {.size = 12});
  }

  Svg& svg_;
  const Curve* predicted_;
  const Curve* profiled_;
  double y_ = plot.y + 4;
};

std::string subtitle(bool has_predicted, bool has_profiled) {
  if (has_predicted && has_profiled)
    return "Live bytes over one step by category: profiled filled, predicted as the line over it";
  return fmt::format("Live bytes over one step by category, {}",
                     has_predicted ? "predicted" : "profiled");
}

}  // namespace

std::string memory_figure(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                          std::string_view title) {
  const bool has_predicted = predicted.value != nullptr, has_profiled = profiled.value != nullptr;
  if (!has_predicted && !has_profiled)
    throw Error({.where = {}, .what = "a memory picture needs a trace", .way_out = {}});
  const Curve predicted_curve = has_predicted ? curve_of(*predicted.value) : Curve{};
  const Curve profiled_curve = has_profiled ? curve_of(*profiled.value) : Curve{};
  const Bytes highest = std::max(predicted_curve.peak.total, profiled_curve.peak.total);
  const auto top = static_cast<std::int64_t>(static_cast<double>(highest.count) * headroom);
  const Frame frame{.time = time_axis(std::max(predicted_curve.length, profiled_curve.length),
                                      plot.x, plot.x + plot.width, 8),
                    .bytes = byte_axis({top}, plot.y + plot.height, plot.y, 8)};

  Svg svg(width, height);
  svg.text({24, 38}, title, {.size = 20, .is_bold = true});
  svg.text({24, 62}, subtitle(has_predicted, has_profiled),
           {.size = 14, .colour = std::string(palette::faint_ink)});
  draw_frame(svg, frame);
  fill_categories(svg, has_profiled ? profiled_curve : predicted_curve, frame);
  draw_baseline(svg);
  if (has_predicted) outline_total(svg, predicted_curve, frame);
  if (has_profiled) flag_peak(svg, profiled_curve, frame, false, plot.y - 3);
  if (has_predicted) flag_peak(svg, predicted_curve, frame, true, plot.y - 29);
  PeakTable(svg, has_predicted ? &predicted_curve : nullptr,
            has_profiled ? &profiled_curve : nullptr)
      .draw();
  return svg.str();
}

}  // namespace shardscope

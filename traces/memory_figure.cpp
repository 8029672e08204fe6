#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "traces/analysis.h"
#include "traces/figure.h"
#include "traces/memory_frame.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr Rectangle plot = memory_plot;

/// One trace's steady step.
struct Curve {
  BandStack stack;
  MemoryPeak peak;
  Duration peak_time;
  std::string at_operation;
};

Curve curve_of(const Trace& trace) {
  const std::vector<StepWindow> steps = step_windows(trace);
  const TimeWindow window = steps[steady_step(steps)].window;
  Curve curve{.stack = {.length = window.length()}, .peak = memory_peak(trace, window)};
  for (const MemoryCategory category : memory_categories)
    curve.stack.colours.emplace_back(palette::of(category));
  curve.peak_time = curve.peak.time - window.begin;
  if (const OperationFacts* facts = FactsTable(trace).find(curve.peak.operation))
    curve.at_operation = facts->name;
  std::vector<BandLevel> levels;
  for (const MemorySample& sample : trace.memory) {
    if (sample.time >= window.end) break;
    if (sample.time <= window.begin) levels.clear();
    levels.push_back({.time = std::max(sample.time, window.begin) - window.begin,
                      .by = {sample.live.by.begin(), sample.live.by.end()}});
  }
  curve.stack.levels = thinned(levels, curve.stack.length);
  return curve;
}

bool is_used(const Curve& curve, MemoryCategory category) {
  return curve.peak.maximum[category] > Bytes{};
}

void outline_total(Svg& svg, const Curve& curve, const MemoryFrame& frame) {
  const std::vector<Point> top = band_edge(curve.stack, frame, memory_category_count - 1);
  svg.polyline(top, {.stroke = "#ffffff", .stroke_width = 4.5, .opacity = 0.85});
  svg.polyline(top, {.stroke = std::string(palette::ink), .stroke_width = 1.8});
}

void flag_peak(Svg& svg, const Curve& curve, const MemoryFrame& frame, bool is_predicted,
               double y) {
  draw_peak_flag(svg, frame,
                 {.label = fmt::format("{} peak {}", is_predicted ? "predicted" : "profiled",
                                       rounded_text(curve.peak.total)),
                  .time = curve.peak_time,
                  .bytes = curve.peak.total,
                  .is_hollow = is_predicted,
                  .y = y});
}

/// Legend and figures at once: each category's bytes at the peak.
class PeakTable {
 public:
  PeakTable(Svg& svg, const Curve* predicted, const Curve* profiled)
      : svg_(svg), predicted_(predicted), profiled_(profiled) {}

  void draw() {
    svg_.text({memory_panel_x, y_}, "Live at the peak", {.size = 14, .is_bold = true});
    y_ += 22;
    if (predicted_ != nullptr) header(predicted_right(), "predicted");
    if (profiled_ != nullptr) header(memory_panel_right, "profiled");
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
  static constexpr double row_height = 25;

  double predicted_right() const { return profiled_ != nullptr ? 1090 : memory_panel_right; }

  void header(double right, std::string_view title) {
    svg_.text({right, y_}, title,
              {.size = 12, .colour = std::string(palette::faint_ink), .anchor = Anchor::end});
  }
  void row(MemoryCategory category) {
    const bool is_shown = (predicted_ != nullptr && is_used(*predicted_, category)) ||
                          (profiled_ != nullptr && is_used(*profiled_, category));
    if (!is_shown) return;
    y_ += row_height;
    svg_.rectangle({memory_panel_x, y_ - 12, 15, 15}, {.fill = std::string(palette::of(category))},
                   2);
    std::string label(name_of(category));
    std::replace(label.begin(), label.end(), '_', ' ');
    svg_.text({memory_panel_x + 23, y_}, label);
    if (predicted_ != nullptr) value(predicted_right(), predicted_->peak.at_peak[category], false);
    if (profiled_ != nullptr) value(memory_panel_right, profiled_->peak.at_peak[category], false);
  }
  void total() {
    y_ += 10;
    svg_.line({memory_panel_x, y_}, {memory_panel_right, y_},
              {.stroke = std::string(palette::faint_ink)});
    y_ += row_height - 5;
    svg_.text({memory_panel_x + 23, y_}, "total", {.is_bold = true});
    if (predicted_ != nullptr) {
      svg_.line({memory_panel_x, y_ - 5}, {memory_panel_x + 16, y_ - 5},
                {.stroke = std::string(palette::ink), .stroke_width = 2});
      value(predicted_right(), predicted_->peak.total, true);
    }
    if (profiled_ != nullptr) value(memory_panel_right, profiled_->peak.total, true);
  }
  void value(double right, Bytes bytes, bool is_bold) {
    svg_.text({right, y_}, rounded_text(bytes), {.anchor = Anchor::end, .is_bold = is_bold});
  }
  void operation(const Curve* curve, std::string_view side) {
    if (curve == nullptr || curve->at_operation.empty()) return;
    y_ += row_height;
    svg_.text({memory_panel_x, y_}, fmt::format("{} peak at", side),
              {.size = 12, .colour = std::string(palette::faint_ink)});
    // Names read "module kernel": a line for each, where both together are too long.
    const std::string_view name = curve->at_operation;
    const bool is_one_line = text_width(name, 12) <= memory_panel_right - memory_panel_x;
    const std::size_t split = is_one_line ? name.npos : name.rfind(' ');
    small_line(name.substr(0, split));
    if (split != name.npos) small_line(name.substr(split + 1));
  }
  void small_line(std::string_view text) {
    y_ += 17;
    svg_.text({memory_panel_x, y_}, fitted(text, 12, memory_panel_right - memory_panel_x),
              {.size = 12});
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
  const MemoryFrame frame =
      memory_frame(std::max(predicted_curve.stack.length, profiled_curve.stack.length), highest);

  Svg svg(memory_width, memory_height);
  svg.text({24, 38}, title, {.size = 20, .is_bold = true});
  svg.text({24, 62}, subtitle(has_predicted, has_profiled),
           {.size = 14, .colour = std::string(palette::faint_ink)});
  draw_memory_frame(svg, frame, fmt::format("time since the step began, {}", frame.time.unit));
  fill_bands(svg, (has_profiled ? profiled_curve : predicted_curve).stack, frame);
  draw_memory_baseline(svg);
  if (has_predicted) outline_total(svg, predicted_curve, frame);
  if (has_profiled) flag_peak(svg, profiled_curve, frame, false, plot.y - 3);
  if (has_predicted) flag_peak(svg, predicted_curve, frame, true, plot.y - 29);
  PeakTable(svg, has_predicted ? &predicted_curve : nullptr,
            has_profiled ? &profiled_curve : nullptr)
      .draw();
  return svg.str();
}

}  // namespace shardscope

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/axis.h"
#include "traces/figure.h"
#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double width = 1200, top = 132, row_height = 62, bar_height = 18, bar_gap = 4;
constexpr double label_right = 212;
constexpr double value_room = 150;  // behind the longest bar, for its figures

struct Panel {
  double left;
  double right;
  std::string title;
  std::string colour;
};

/// One side's bar: its value on the panel's axis and as text.
struct Bar {
  std::int64_t value = 0;
  std::string text;
};

struct BarPair {
  std::optional<Bar> predicted;
  std::optional<Bar> profiled;
};

template <class T>
std::string signed_error(const std::optional<Predicted<T>>& predicted,
                         const std::optional<Profiled<T>>& profiled) {
  if (!predicted || !profiled) return {};
  const auto share = error_share(SideBySide<T>{*predicted, *profiled});
  return share ? fmt::format("  ({:+.1f}%)", *share * 100) : std::string();
}

std::int64_t count_of(Bytes bytes) { return bytes.count; }
std::int64_t count_of(Duration time) { return time.ns; }

template <class T>
BarPair bar_pair(const std::optional<Predicted<T>>& predicted,
                 const std::optional<Profiled<T>>& profiled) {
  BarPair result;
  if (predicted) {
    result.predicted = Bar{count_of(predicted->value),
                           rounded_text(predicted->value) + signed_error(predicted, profiled)};
  }
  if (profiled) result.profiled = Bar{count_of(profiled->value), rounded_text(profiled->value)};
  return result;
}

std::int64_t longest(const std::vector<BarPair>& pairs) {
  std::int64_t result = 1;
  for (const BarPair& pair : pairs) {
    if (pair.predicted) result = std::max(result, pair.predicted->value);
    if (pair.profiled) result = std::max(result, pair.profiled->value);
  }
  return result;
}

void draw_bar(Svg& svg, const Bar& bar, const Axis& axis, double y, const Brush& paint) {
  const double end = axis.at(bar.value);
  svg.rectangle({axis.from, y, std::max(0.0, end - axis.from), bar_height}, paint, 2);
  svg.text({end + 8, y + bar_height - 4.5}, bar.text, {.has_halo = true});
}

void draw_panel(Svg& svg, const Panel& panel, const Axis& axis, const std::vector<BarPair>& pairs) {
  const double bottom = top + row_height * static_cast<double>(pairs.size());
  svg.text({panel.left, top - 20}, fmt::format("{}, {}", panel.title, axis.unit),
           {.size = 14, .is_bold = true});
  for (const Tick& tick : axis.ticks) {
    const double x = axis.at(tick.value);
    svg.line({x, top - 6}, {x, bottom}, {.stroke = std::string(palette::grid)});
    svg.text({x, bottom + 18}, tick.label,
             {.colour = std::string(palette::faint_ink), .anchor = Anchor::middle});
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const double y =
        top + row_height * static_cast<double>(i) + (row_height - 2 * bar_height - bar_gap) / 2;
    const Brush hollow{.fill = "#ffffff", .stroke = panel.colour, .stroke_width = 2};
    const Brush solid{.fill = panel.colour, .stroke = panel.colour, .stroke_width = 2};
    if (pairs[i].predicted) draw_bar(svg, *pairs[i].predicted, axis, y, hollow);
    if (pairs[i].profiled) draw_bar(svg, *pairs[i].profiled, axis, y + bar_height + bar_gap, solid);
  }
  svg.line({panel.left, top - 6}, {panel.left, bottom},
           {.stroke = std::string(palette::faint_ink)});
}

void draw_legend(Svg& svg, double y) {
  const std::string ink(palette::faint_ink);
  svg.rectangle({24, y, 26, 13}, {.fill = "#ffffff", .stroke = ink, .stroke_width = 2}, 2);
  svg.text({58, y + 11.5}, "predicted");
  svg.rectangle({150, y, 26, 13}, {.fill = ink, .stroke = ink, .stroke_width = 2}, 2);
  svg.text({184, y + 11.5}, "profiled");
  svg.text({276, y + 11.5}, "in brackets: (predicted − profiled) / profiled", {.colour = ink});
}

}  // namespace

std::string strategies_figure(const std::vector<StrategyBars>& strategies, std::string_view title) {
  std::vector<BarPair> peaks, times;
  for (const StrategyBars& strategy : strategies) {
    peaks.push_back(bar_pair(strategy.predicted_peak, strategy.profiled_peak));
    times.push_back(bar_pair(strategy.predicted_step, strategy.profiled_step));
  }
  const Panel memory{.left = 226,
                     .right = 690,
                     .title = "Peak memory of a rank",
                     .colour = std::string(palette::blue)};
  const Panel time{
      .left = 730, .right = 1190, .title = "Step time", .colour = std::string(palette::vermilion)};

  Svg svg(width, top + row_height * static_cast<double>(strategies.size()) + 44);
  svg.text({24, 38}, title, {.size = 20, .is_bold = true});
  draw_legend(svg, 56);
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const double y = top + row_height * static_cast<double>(i);
    if (i % 2 == 1)
      svg.rectangle({16, y, width - 32, row_height}, {.fill = std::string(palette::lane)}, 4);
    svg.text({label_right, y + row_height / 2 + 5},
             fitted(strategies[i].label, 14, label_right - 20),
             {.size = 14, .anchor = Anchor::end});
  }
  draw_panel(svg, memory, byte_axis({longest(peaks)}, memory.left, memory.right - value_room, 5),
             peaks);
  draw_panel(svg, time, time_axis({longest(times)}, time.left, time.right - value_room, 5), times);
  return svg.str();
}

}  // namespace shardscope

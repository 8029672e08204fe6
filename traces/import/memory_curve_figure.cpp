#include "traces/import/memory_curve_figure.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/palette.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

constexpr double row_height = 25;
const std::string faint(palette::faint_ink);

/// Legend and figures at once, read from the top of the stack down.
void draw_table(Svg& svg, const MemoryCurve& curve) {
  double y = memory_plot.y + 4;
  svg.text({memory_panel_x, y}, "Live at the peak", {.size = 14, .is_bold = true});
  const auto value = [&](Bytes bytes, bool is_bold) {
    svg.text({memory_panel_right, y}, rounded_text(bytes),
             {.anchor = Anchor::end, .is_bold = is_bold});
  };
  for (std::size_t i = curve.bands.size(); i-- > 0;) {
    const MemoryBand& band = curve.bands[i];
    const bool is_shown =
        std::any_of(curve.stack.levels.begin(), curve.stack.levels.end(),
                    [&](const BandLevel& level) { return level.by[i] > Bytes{}; });
    if (!is_shown) continue;
    y += row_height;
    svg.rectangle({memory_panel_x, y - 12, 15, 15}, {.fill = curve.stack.colours[i]}, 2);
    std::string label = band.name;
    std::replace(label.begin(), label.end(), '_', ' ');
    svg.text({memory_panel_x + 23, y}, label);
    value(band.at_peak, false);
  }
  y += 10;
  svg.line({memory_panel_x, y}, {memory_panel_right, y}, {.stroke = faint});
  y += row_height - 5;
  svg.text({memory_panel_x + 23, y}, "total", {.is_bold = true});
  value(curve.peak, true);
  if (!curve.reserved) return;
  y += row_height;
  svg.line({memory_panel_x, y - 5}, {memory_panel_x + 16, y - 5}, {.stroke = faint, .dash = "4 3"});
  svg.text({memory_panel_x + 23, y}, "reserved at most");
  value(*curve.reserved, false);
}

void draw_reserved(Svg& svg, const MemoryCurve& curve, const MemoryFrame& frame) {
  if (!curve.reserved) return;
  const double y = frame.bytes.at(curve.reserved->count);
  svg.line({memory_plot.x, y}, {memory_plot.x + memory_plot.width, y},
           {.stroke = faint, .dash = "4 3"});
}

/// Events stand for nanoseconds where the file has no times.
std::string caption(const MemoryCurve& curve, const MemoryFrame& frame) {
  const std::string& unit = frame.time.unit;
  if (!curve.is_by_event) return "time since the first event, " + unit;
  const std::string_view events = unit == "ns"   ? "events"
                                  : unit == "us" ? "thousand events"
                                                 : "million events";
  return fmt::format("{} (the file has no times)", events);
}

}  // namespace

std::string memory_curve_figure(const MemoryCurve& curve, std::string_view title) {
  const MemoryFrame frame =
      memory_frame(curve.stack.length, std::max(curve.peak, curve.reserved.value_or(Bytes{})));
  Svg svg(memory_width, memory_height);
  svg.text({24, 38}, title, {.size = 20, .is_bold = true});
  svg.text({24, 62}, "Live bytes by category: " + curve.what, {.size = 14, .colour = faint});
  draw_memory_frame(svg, frame, caption(curve, frame));
  fill_bands(svg, curve.stack, frame);
  draw_memory_baseline(svg);
  draw_reserved(svg, curve, frame);
  draw_peak_flag(svg, frame,
                 {.label = "peak " + rounded_text(curve.peak),
                  .time = curve.peak_time,
                  .bytes = curve.peak,
                  .y = memory_plot.y - 3});
  draw_table(svg, curve);
  return svg.str();
}

}  // namespace shardscope

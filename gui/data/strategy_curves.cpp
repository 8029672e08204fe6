#include "gui/data/strategy_curves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/data/side_times.h"
#include "traces/analysis.h"

namespace shardscope::gui {
namespace {

std::vector<TimeWindow> windows_of(const Trace& trace, TimeWindow step, SpanClass span_class) {
  std::vector<TimeWindow> windows;
  for (const Span& span : trace.spans)
    if (span.span_class == span_class && is_on_device(trace, span))
      windows.push_back(clipped({.begin = span.start, .end = span.end()}, step));
  return windows;
}

void add_busy(SideCurve& side, const Trace& trace, TimeWindow step) {
  std::vector<TimeWindow> all = windows_of(trace, step, SpanClass::compute);
  side.compute = IntervalUnion(all);
  std::vector<TimeWindow> communication = windows_of(trace, step, SpanClass::communication);
  all.insert(all.end(), communication.begin(), communication.end());
  side.communication = IntervalUnion(std::move(communication));
  side.compute_or_communication = IntervalUnion(all);
  const std::vector<TimeWindow> copies = windows_of(trace, step, SpanClass::copy);
  all.insert(all.end(), copies.begin(), copies.end());
  side.busy = IntervalUnion(std::move(all));
}

/// Samples of the step; the last one before it stands at its begin, unless one falls on that.
void add_memory(SideCurve& side, const Trace& trace, TimeWindow step) {
  const auto at = [](const MemorySample& sample, Duration time) { return sample.time < time; };
  const auto& samples = trace.memory;
  auto sample = std::lower_bound(samples.begin(), samples.end(), step.begin, at);
  const bool is_set_at_begin = sample != samples.end() && sample->time == step.begin;
  if (!is_set_at_begin && sample != samples.begin()) --sample;
  for (; sample != samples.end() && sample->time < step.end; ++sample) {
    const Duration time = std::max(sample->time, step.begin);
    const MemoryPoint point{.axis = side.map.axis_of(static_cast<double>(time.ns)),
                            .bytes = static_cast<double>(sample->live.total().count)};
    side.memory.push_back(point);
    if (point.bytes <= side.peak_bytes) continue;
    side.peak_bytes = point.bytes;
    side.peak_axis = point.axis;
  }
}

double at_pixel(TimeRange shown, int pixels, int pixel) {
  return shown.begin + shown.length() * pixel / pixels;
}

Duration clock_at(const SideCurve& side, double axis) {
  const double clock = side.map.clock_of(std::clamp(axis, side.extent.begin, side.extent.end));
  return {std::llround(clock)};
}

}  // namespace

std::vector<SideCurve> strategy_curves(const Scenario& scenario, TimeMode mode,
                                       const Scenario* reference) {
  std::vector<SideCurve> curves;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    if (side == nullptr || !side->has_trace()) continue;
    const Trace& trace = *side->ranks.front();
    const TimeWindow step = shown_step(trace);
    SideCurve curve{.kind = kind, .map = time_map(scenario, kind, 0, mode, reference)};
    curve.extent = {.begin = curve.map.axis_of(static_cast<double>(step.begin.ns)),
                    .end = curve.map.axis_of(static_cast<double>(step.end.ns))};
    add_busy(curve, trace, step);
    add_memory(curve, trace, step);
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<TimeShares> time_shares(const SideCurve& side, TimeRange shown, int pixels) {
  std::vector<TimeShares> shares(static_cast<std::size_t>(std::max(pixels, 0)));
  for (int i = 0; i < pixels; ++i) {
    const TimeWindow window{.begin = clock_at(side, at_pixel(shown, pixels, i)),
                            .end = clock_at(side, at_pixel(shown, pixels, i + 1))};
    const auto length = static_cast<double>(window.length().ns);
    if (length <= 0) continue;
    const auto covered = [&](const IntervalUnion& by) {
      return static_cast<double>(by.covered(window).ns) / length;
    };
    const double compute = covered(side.compute), both = covered(side.compute_or_communication);
    const double busy = covered(side.busy), communication = covered(side.communication);
    const double exposed = both - compute, overlapped = communication - exposed;
    shares[static_cast<std::size_t>(i)] = {.compute = compute - overlapped,
                                           .overlapped = overlapped,
                                           .exposed = exposed,
                                           .copies = busy - both,
                                           .idle = 1 - busy};
  }
  return shares;
}

std::vector<std::optional<double>> memory_pixels(const SideCurve& side, TimeRange shown,
                                                 int pixels) {
  std::vector<std::optional<double>> most(static_cast<std::size_t>(std::max(pixels, 0)));
  auto next = side.memory.begin();
  std::optional<double> alive;
  for (int i = 0; i < pixels; ++i) {
    const double begin = at_pixel(shown, pixels, i), end = at_pixel(shown, pixels, i + 1);
    // What changes at the very begin was not alive in this part.
    for (; next != side.memory.end() && next->axis <= begin; ++next) alive = next->bytes;
    std::optional<double> highest = alive;
    for (; next != side.memory.end() && next->axis < end; ++next) {
      alive = next->bytes;
      highest = std::max(highest.value_or(0), next->bytes);
    }
    const bool is_inside = end > side.extent.begin && begin < side.extent.end;
    if (is_inside) most[static_cast<std::size_t>(i)] = highest;
  }
  return most;
}

}  // namespace shardscope::gui

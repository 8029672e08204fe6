#include "gui/data/strategy_curves.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gui/data/memory_sources.h"
#include "gui/data/pixel_edges.h"
#include "gui/data/side_times.h"

namespace shardscope::gui {
namespace {

double at_pixel(TimeRange shown, int pixels, int pixel) {
  return shown.begin + shown.length() * pixel / pixels;
}

/// Levels of the side's first source; what holds as the step begins stands at its begin.
void add_memory(SideCurve& curve, const Side& side) {
  const std::vector<MemorySource> sources = memory_sources(side);
  if (sources.empty()) return;
  const MemoryLevels levels = memory_levels(side, sources.front());
  const auto begin = static_cast<double>(curve.step.begin.ns);
  const auto end = static_cast<double>(curve.step.end.ns);
  for (std::size_t i = levels.at(begin).value_or(0); i < levels.levels.size(); ++i) {
    const MemoryLevel& level = levels.levels[i];
    if (level.begin >= end) break;
    const MemoryPoint point{.axis = curve.map.axis_of(std::max(level.begin, begin)),
                            .bytes = static_cast<double>(level.bytes.total().count)};
    curve.memory.push_back(point);
    if (point.bytes <= curve.peak_bytes) continue;
    curve.peak_bytes = point.bytes;
    curve.peak_axis = point.axis;
  }
}

std::optional<SideCurve> side_curve(const Scenario& scenario, const Side& side, TimeMode mode,
                                    const Scenario* reference) {
  SideCurve curve{.kind = side.kind, .map = TimeMap()};
  if (side.has_trace()) {
    curve.step = shown_step(*side.ranks.front());
    curve.map = time_map(scenario, side.kind, 0, mode, reference);
    curve.coverage = Coverage(*side.ranks.front());
  } else if (const auto extent = memory_extent(side)) {
    curve.step = *extent;
    curve.map = TimeMap(static_cast<double>(extent->begin.ns));
  } else {
    return std::nullopt;
  }
  curve.extent = {.begin = curve.map.axis_of(static_cast<double>(curve.step.begin.ns)),
                  .end = curve.map.axis_of(static_cast<double>(curve.step.end.ns))};
  add_memory(curve, side);
  return curve;
}

TimeShares shares_of(const PixelTimes& times, std::int64_t length) {
  const auto share = [&](std::int64_t part) {
    return static_cast<double>(part) / static_cast<double>(length);
  };
  return {.compute = share(times.compute - times.overlapped),
          .overlapped = share(times.overlapped),
          .exposed = share(times.communication),
          .copies = share(times.copy),
          .idle = share(times.idle)};
}

}  // namespace

std::vector<SideCurve> strategy_curves(const Scenario& scenario, TimeMode mode,
                                       const Scenario* reference) {
  std::vector<SideCurve> curves;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    if (side == nullptr) continue;
    if (auto curve = side_curve(scenario, *side, mode, reference)) {
      curve->ran_out = side->summary && side->summary->out_of_memory;
      curves.push_back(std::move(*curve));
    }
  }
  return curves;
}

std::vector<TimeShares> time_shares(const SideCurve& side, TimeRange shown, int pixels) {
  std::vector<TimeShares> shares(static_cast<std::size_t>(std::max(pixels, 0)));
  if (shares.empty() || side.coverage.empty()) return shares;
  std::vector<std::int64_t> edges = pixel_edges(shown, pixels, side.map);
  for (std::int64_t& edge : edges) edge = std::clamp(edge, side.step.begin.ns, side.step.end.ns);
  const std::vector<PixelTimes> times = side.coverage.pixels(edges);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::int64_t length = edges[i + 1] - edges[i];
    if (length > 0) shares[i] = shares_of(times[i], length);
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

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

/// The place of the part in which `axis` lies.
std::size_t part_at(const SideCurve& curve, double axis) {
  const double share = (axis - curve.extent.begin) / curve.extent.length();
  const double place = share * static_cast<double>(curve_parts);
  return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(curve_parts - 1)));
}

void add_bands(SideCurve& curve, const MemoryLevels& levels) {
  if (levels.empty() || curve.extent.length() <= 0) return;
  const auto begin = static_cast<double>(curve.step.begin.ns);
  const auto end = static_cast<double>(curve.step.end.ns);
  curve.bands.assign(curve_parts, {});
  std::vector<Bytes> most(curve_parts);
  for (std::size_t i = levels.at(begin).value_or(0); i < levels.levels.size(); ++i) {
    const MemoryLevel& level = levels.levels[i];
    if (level.begin >= end) break;
    const double until = i + 1 < levels.levels.size() ? levels.levels[i + 1].begin : levels.end;
    const std::size_t first = part_at(curve, curve.map.axis_of(std::max(level.begin, begin)));
    const std::size_t last = part_at(curve, curve.map.axis_of(std::min(until, end)));
    const Bytes total = level.bytes.total();
    for (std::size_t part = first; part <= last; ++part) {
      if (total < most[part]) continue;
      most[part] = total;
      curve.bands[part] = level.bytes;
    }
  }
}

/// Levels of the side's first source; what holds as the step begins stands at its begin.
void add_memory(SideCurve& curve, const Scenario& scenario, const Side& side) {
  const std::vector<MemorySource> sources = memory_sources(side);
  if (sources.empty()) return;
  curve.clock = memory_clock(scenario, sources.front());
  const MemoryLevels levels = memory_levels(side, sources.front(), curve.clock);
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
  add_bands(curve, levels);
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
  add_memory(curve, scenario, side);
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

std::vector<std::optional<BandBytes>> band_pixels(const SideCurve& side, TimeRange shown,
                                                  int pixels) {
  std::vector<std::optional<BandBytes>> bands(static_cast<std::size_t>(std::max(pixels, 0)));
  if (side.bands.empty()) return bands;
  for (int i = 0; i < pixels; ++i) {
    const double axis = (at_pixel(shown, pixels, i) + at_pixel(shown, pixels, i + 1)) / 2;
    if (axis >= side.extent.begin && axis < side.extent.end)
      bands[static_cast<std::size_t>(i)] = side.bands[part_at(side, axis)];
  }
  return bands;
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

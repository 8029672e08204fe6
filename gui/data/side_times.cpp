#include "gui/data/side_times.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "gui/data/memory_sources.h"
#include "gui/data/trace_times.h"

namespace shardscope::gui {
namespace {

using TracePointer = std::shared_ptr<const Trace>;

TimeWindow extent_of(const TraceTimes& times, TimeMode mode) {
  return mode == TimeMode::time ? times.device : times.step;
}

TracePointer trace_of(const Scenario& scenario, SideKind kind, std::size_t rank) {
  const Side* side = scenario.side(kind);
  if (side == nullptr || side->ranks.empty()) return nullptr;
  // A prediction has one rank, which stands for all.
  return side->ranks[std::min(rank, side->ranks.size() - 1)];
}

/// The trace that others are laid on.
TracePointer reference_of(const Scenario& scenario, const Scenario* reference) {
  for (const Scenario* from : {reference, &scenario}) {
    if (from == nullptr) continue;
    for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
      if (TracePointer trace = trace_of(*from, kind, 0)) return trace;
  }
  return nullptr;
}

TimeMap laid_on(const TraceTimes& reference, const TraceTimes& times) {
  const auto begin = static_cast<double>(reference.step.begin.ns);
  std::vector<TimeMap::Knot> knots;
  knots.push_back({.clock = static_cast<double>(times.step.begin.ns), .axis = 0});
  auto same = reference.landmarks.begin();
  for (const auto& [landmark, clock] : times.landmarks) {
    while (same != reference.landmarks.end() && same->first < landmark) ++same;
    if (same != reference.landmarks.end() && same->first == landmark)
      knots.push_back({.clock = clock, .axis = same->second - begin});
  }
  knots.push_back({.clock = static_cast<double>(times.step.end.ns),
                   .axis = static_cast<double>(reference.step.length().ns)});
  std::sort(knots.begin(), knots.end(),
            [](const auto& a, const auto& b) { return a.clock < b.clock; });
  return TimeMap(knots);
}

}  // namespace

TimeMap time_map(const Scenario& scenario, SideKind side, std::size_t rank, TimeMode mode,
                 const Scenario* reference, StepChoice step) {
  const TracePointer trace = trace_of(scenario, side, rank);
  if (!trace) return TimeMap();
  const auto times = times_of(trace, step);
  if (mode == TimeMode::unit)
    if (const TracePointer other = reference_of(scenario, reference); other && other != trace)
      return laid_on(*times_of(other, step), *times);
  return TimeMap(static_cast<double>(extent_of(*times, mode).begin.ns));
}

namespace {

std::optional<TimeRange> extent_on_axis(const Scenario& scenario, const Side& side, SideKind kind,
                                        const Scenario* reference, TimeMode map_mode,
                                        TimeMode extent_mode, StepChoice step) {
  std::optional<TimeRange> all;
  for (std::size_t rank = 0; rank < side.ranks.size(); ++rank) {
    const TimeMap map = time_map(scenario, kind, rank, map_mode, reference, step);
    const TimeWindow window = extent_of(*times_of(side.ranks[rank], step), extent_mode);
    const TimeRange range{.begin = map.axis_of(static_cast<double>(window.begin.ns)),
                          .end = map.axis_of(static_cast<double>(window.end.ns))};
    all = all ? united(*all, range) : range;
  }
  return all;
}

}  // namespace

std::optional<TimeRange> axis_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference, StepChoice step) {
  std::optional<TimeRange> all;
  const auto add = [&](const std::optional<TimeRange>& range) {
    if (range) all = all ? united(*all, *range) : *range;
  };
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    if (side == nullptr) continue;
    add(extent_on_axis(scenario, *side, kind, reference, mode, mode, step));
    // Snapshots and timelines alone: since their first event.
    if (const auto memory = memory_extent(*side))
      add(TimeRange{.begin = 0, .end = static_cast<double>(memory->length().ns)});
  }
  return all;
}

std::optional<TimeRange> step_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference, StepChoice step) {
  std::optional<TimeRange> all;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    if (side == nullptr) continue;
    const auto range = extent_on_axis(scenario, *side, kind, reference, mode, TimeMode::step, step);
    if (range) all = all ? united(*all, *range) : *range;
  }
  return all;
}

}  // namespace shardscope::gui

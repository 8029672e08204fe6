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
                 const Scenario* reference) {
  const TracePointer trace = trace_of(scenario, side, rank);
  if (!trace) return TimeMap();
  const auto times = times_of(trace);
  if (mode == TimeMode::unit)
    if (const TracePointer other = reference_of(scenario, reference); other && other != trace)
      return laid_on(*times_of(other), *times);
  return TimeMap(static_cast<double>(extent_of(*times, mode).begin.ns));
}

std::optional<TimeRange> axis_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference) {
  std::optional<TimeRange> all;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    for (std::size_t rank = 0; side != nullptr && rank < side->ranks.size(); ++rank) {
      const TimeMap map = time_map(scenario, kind, rank, mode, reference);
      const TimeWindow window = extent_of(*times_of(side->ranks[rank]), mode);
      const TimeRange range{.begin = map.axis_of(static_cast<double>(window.begin.ns)),
                            .end = map.axis_of(static_cast<double>(window.end.ns))};
      all = all ? united(*all, range) : range;
    }
    // Snapshots and timelines alone: since their first event.
    const auto memory = side == nullptr ? std::nullopt : memory_extent(*side);
    if (!memory) continue;
    const TimeRange range{.begin = 0, .end = static_cast<double>(memory->length().ns)};
    all = all ? united(*all, range) : range;
  }
  return all;
}

}  // namespace shardscope::gui

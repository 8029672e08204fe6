#include "gui/data/side_times.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gui/data/memory_sources.h"
#include "traces/analysis.h"

namespace shardscope::gui {
namespace {

/// What two sides must have in common to be laid on one another: the n-th time in a step that a
/// unit's operations of a phase begin.
using Landmark = std::tuple<std::string, Phase, std::int32_t>;

/// When each landmark of the step is first reached, on the trace's clock.
std::map<Landmark, double> landmarks_of(const Trace& trace, TimeWindow step) {
  const FactsTable facts(trace);
  std::map<Landmark, double> begins;
  for (const Span& span : trace.spans) {
    if (span.start < step.begin || span.start >= step.end) continue;
    if (span.span_class != SpanClass::compute) continue;
    const OperationFacts* fact = facts.find(span.operation);
    if (fact == nullptr) continue;
    const auto time = static_cast<double>(span.start.ns);
    const auto [place, is_new] =
        begins.try_emplace(Landmark{fact->unit, fact->phase, fact->micro_batch}, time);
    if (!is_new) place->second = std::min(place->second, time);
  }
  return begins;
}

TimeWindow extent_of(const Trace& trace, TimeMode mode) {
  return mode == TimeMode::time ? device_window(trace) : shown_step(trace);
}

const Trace* trace_of(const Scenario& scenario, SideKind kind, std::size_t rank) {
  const Side* side = scenario.side(kind);
  if (side == nullptr || side->ranks.empty()) return nullptr;
  // A prediction has one rank, which stands for all.
  return side->ranks[std::min(rank, side->ranks.size() - 1)].get();
}

/// The trace that others are laid on.
const Trace* reference_of(const Scenario& scenario, const Scenario* reference) {
  for (const Scenario* from : {reference, &scenario}) {
    if (from == nullptr) continue;
    for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
      if (const Trace* trace = trace_of(*from, kind, 0)) return trace;
  }
  return nullptr;
}

TimeMap laid_on(const Trace& reference, const Trace& trace) {
  const TimeWindow step = shown_step(trace), other = shown_step(reference);
  const auto there = landmarks_of(reference, other);
  std::vector<TimeMap::Knot> knots;
  knots.push_back({.clock = static_cast<double>(step.begin.ns), .axis = 0});
  for (const auto& [landmark, clock] : landmarks_of(trace, step))
    if (const auto same = there.find(landmark); same != there.end())
      knots.push_back({.clock = clock, .axis = same->second - static_cast<double>(other.begin.ns)});
  knots.push_back(
      {.clock = static_cast<double>(step.end.ns), .axis = static_cast<double>(other.length().ns)});
  std::sort(knots.begin(), knots.end(),
            [](const auto& a, const auto& b) { return a.clock < b.clock; });
  return TimeMap(knots);
}

}  // namespace

TimeMap time_map(const Scenario& scenario, SideKind side, std::size_t rank, TimeMode mode,
                 const Scenario* reference) {
  const Trace* trace = trace_of(scenario, side, rank);
  if (trace == nullptr) return TimeMap();
  if (mode == TimeMode::unit)
    if (const Trace* other = reference_of(scenario, reference); other && other != trace)
      return laid_on(*other, *trace);
  return TimeMap(static_cast<double>(extent_of(*trace, mode).begin.ns));
}

std::optional<TimeRange> axis_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference) {
  std::optional<TimeRange> all;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const Side* side = scenario.side(kind);
    for (std::size_t rank = 0; side != nullptr && rank < side->ranks.size(); ++rank) {
      const TimeMap map = time_map(scenario, kind, rank, mode, reference);
      const TimeWindow window = extent_of(*side->ranks[rank], mode);
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

#include "gui/data/memory_picture.h"

#include <algorithm>
#include <utility>

#include "gui/data/side_times.h"
#include "gui/data/snapshot_levels.h"
#include "gui/data/source_match.h"

namespace shardscope::gui {
namespace {

template <class Figure>
Extremes figures_of(const MemoryLevels& levels, Figure figure) {
  std::vector<std::int64_t> values;
  values.reserve(levels.levels.size());
  bool is_known = false;
  for (const MemoryLevel& level : levels.levels) {
    values.push_back(figure(level).count);
    is_known |= values.back() != 0;
  }
  return is_known ? Extremes(std::move(values)) : Extremes();
}

/// Where a run stops because memory is not had: a prediction says so in its summary, and its levels
/// end there; a snapshot has the event.
std::vector<FailedRequestMark> failed_requests(const Side& side, const MemorySource& source,
                                               const MemoryLevels& levels) {
  std::vector<FailedRequestMark> marks;
  if (side.summary && side.summary->out_of_memory) {
    const OutOfMemorySummary& failed = *side.summary->out_of_memory;
    marks.push_back({.time = levels.end,
                     .requested = failed.requested,
                     .free = failed.free,
                     .operation = failed.operation,
                     .unit = failed.unit});
  }
  if (source.kind != MemorySource::Kind::snapshot) return marks;
  for (const SnapshotOutOfMemory& failed : side.snapshots[source.index]->out_of_memory) {
    const std::size_t level = std::size_t{failed.event} + 1;  // the first is before all events
    if (failed.device == source.device && level < levels.levels.size())
      marks.push_back({.time = levels.levels[level].begin,
                       .requested = failed.bytes,
                       .free = failed.free,
                       .operation = {},
                       .unit = {}});
  }
  return marks;
}

std::optional<MemorySource> chosen_source(const MemoryPictureRequest& request) {
  if (!request.a) return std::nullopt;
  const std::vector<MemorySource> sources = sources_to_choose(*request.a);
  if (sources.empty()) return std::nullopt;
  return sources[std::min(request.source, sources.size() - 1)];
}

/// The rank whose trace has the source's clock, and by how much its times are later there. None:
/// its times are since its first event.
std::optional<std::pair<std::size_t, double>> clock_rank(const Side& side,
                                                         const MemorySource& source) {
  if (source.kind == MemorySource::Kind::rank || source.kind == MemorySource::Kind::profiler_events)
    return std::pair(source.index, 0.0);
  if (source.kind != MemorySource::Kind::snapshot) return std::nullopt;
  const auto begin = snapshot_begin(*side.snapshots[source.index], source.device);
  if (!begin) return std::nullopt;
  for (std::size_t rank = 0; rank < side.ranks.size(); ++rank) {
    const Trace& trace = *side.ranks[rank];
    if (side.ranks.size() > 1 && trace.local_rank != source.device) continue;
    const TimeWindow window = times_of(side.ranks[rank])->device;
    const double length = snapshot_length(*side.snapshots[source.index], source.device);
    std::int64_t later = 0;  // a foreign file may say anything of its clock
    if (__builtin_sub_overflow(*begin, trace.base_ns, &later)) continue;
    const auto since = static_cast<double>(later);
    if (since <= static_cast<double>(window.end.ns) &&
        since + length >= static_cast<double>(window.begin.ns))
      return std::pair(rank, since);
  }
  return std::nullopt;
}

void compare_sides(ScenarioCurves& curves, const MemoryPictureRequest& request) {
  const MemoryLevels& predicted = curves.predicted->levels;
  const MemoryLevels& profiled = curves.profiled->levels;
  curves.pairs_end = std::min(predicted.end, profiled.end);
  std::vector<std::int64_t> totals, selected;
  for (const PairedLevels::Row& row : curves.pairs.rows) {
    const BandBytes difference = predicted_less_profiled(curves, row);
    curves.pair_begins.push_back(row.begin);
    totals.push_back(difference.total(request.shown).count);
    if (request.selected) selected.push_back(difference[*request.selected].count);
  }
  curves.difference = Extremes(std::move(totals));
  if (request.selected) curves.selected_difference = Extremes(std::move(selected));
}

void add_limits(ScenarioCurves& curves) {
  for (const SideKind kind : {SideKind::profiled, SideKind::predicted}) {
    const Side* side = curves.scenario->side(kind);
    if (side == nullptr || !side->summary) continue;
    if (!curves.capacity) curves.capacity = side->summary->device_memory;
    if (curves.outside.count == 0) curves.outside = side->summary->memory.outside;
    if (curves.arena.count == 0) curves.arena = side->summary->memory.arena;
  }
}

/// The side's curve beside that of `wanted`.
void add_side(ScenarioCurves& curves, SideKind kind, const std::optional<MemorySource>& wanted,
              const MemoryPictureRequest& request) {
  const Side* side = curves.scenario->side(kind);
  if (side == nullptr) return;
  const std::vector<MemorySource> sources = memory_sources(*side);
  if (sources.empty()) return;
  const auto source = matching_source(sources, wanted.value_or(sources.front()));
  if (!source) return curves.unmatched.push_back(kind);
  MemorySideCurve curve = memory_side_curve(*curves.scenario, *source, request);
  if (curve.levels.empty()) return;
  (kind == SideKind::predicted ? curves.predicted : curves.profiled) = std::move(curve);
}

ScenarioCurves scenario_curves(const ScenarioPointer& scenario, const MemoryPictureRequest& request,
                               const std::optional<MemorySource>& wanted) {
  ScenarioCurves curves{.scenario = scenario};
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
    add_side(curves, kind, wanted, request);
  const MemoryLevels none;
  curves.pairs = paired(curves.predicted ? curves.predicted->levels : none,
                        curves.profiled ? curves.profiled->levels : none);
  if (curves.predicted && curves.profiled) compare_sides(curves, request);
  add_limits(curves);
  return curves;
}

std::int64_t highest_of(const Extremes& values) {
  return values.size() == 0 ? 0 : values[values.over(0, values.size()).highest];
}

Bytes highest_of(const ScenarioCurves& curves) {
  std::int64_t most = curves.arena.count;
  for (const std::optional<MemorySideCurve>* side : {&curves.predicted, &curves.profiled}) {
    if (!*side) continue;
    for (const Extremes* values : {&(*side)->totals, &(*side)->reserved, &(*side)->active})
      most = std::max(most, highest_of(*values));
  }
  return {most};
}

using CurvesPointer = std::shared_ptr<const ScenarioCurves>;

/// Curves of one scenario are then the same in both: A is what they are laid on and matched with.
bool is_alike(MemoryPictureRequest a, const MemoryPictureRequest& b) {
  a.b = b.b;
  a.ghost = b.ghost;
  return a == b;
}

void add_held(const ScenarioCurves& curves, BandSet& held) {
  for (const std::optional<MemorySideCurve>* side : {&curves.predicted, &curves.profiled}) {
    if (!*side) continue;
    for (const MemoryLevel& level : (*side)->levels.levels)
      for (std::size_t band = 0; band < memory_band_count; ++band)
        if (level.bytes[band].count != 0) held.set(band);
  }
}

}  // namespace

SourceClock source_clock(const Scenario& scenario, const MemorySource& source,
                         const MemoryPictureRequest& request) {
  const auto clock = clock_rank(*scenario.side(source.side), source);
  if (!clock) return {.map = TimeMap()};
  return {.map = time_map(scenario, source.side, clock->first, request.mode, request.a.get(),
                          request.step),
          .shift = clock->second};
}

MemorySideCurve memory_side_curve(const Scenario& scenario, const MemorySource& source,
                                  const MemoryPictureRequest& request) {
  const Side& side = *scenario.side(source.side);
  MemorySideCurve curve{.source = source, .clock = memory_clock(scenario, source)};
  MemoryLevels levels = memory_levels(side, source, curve.clock);
  const SourceClock clock = source_clock(scenario, source, request);
  for (MemoryLevel& level : levels.levels) level.begin += clock.shift;
  levels.end += clock.shift;
  curve.levels = on_axis(std::move(levels), clock.map);
  curve.begins = begins_of(curve.levels);
  curve.totals = shown_totals(curve.levels, request.shown);
  curve.reserved = figures_of(curve.levels, [](const MemoryLevel& l) { return l.reserved; });
  curve.active = figures_of(curve.levels, [](const MemoryLevel& l) { return l.active; });
  curve.peak = peak_level(curve.levels, all_bands, request.whole.begin, request.whole.end);
  curve.failed = failed_requests(side, source, curve.levels);
  return curve;
}

BandBytes predicted_less_profiled(const ScenarioCurves& curves, const PairedLevels::Row& row) {
  if (row.predicted == PairedLevels::none || row.profiled == PairedLevels::none) return {};
  return curves.predicted->levels.levels[row.predicted].bytes -
         curves.profiled->levels.levels[row.profiled].bytes;
}

MemoryPicture memory_picture(const MemoryPictureRequest& request, std::stop_token stop,
                             const MemoryPicture& before) {
  MemoryPicture picture{.request = request, .source = chosen_source(request)};
  const auto curves_of = [&](const ScenarioPointer& scenario) -> CurvesPointer {
    if (!scenario) return nullptr;
    if (is_alike(request, before.request))
      for (const CurvesPointer& known : {before.a, before.b, before.ghost})
        if (known && known->scenario == scenario) return known;
    if (stop.stop_requested()) return nullptr;
    return std::make_shared<const ScenarioCurves>(
        scenario_curves(scenario, request, picture.source));
  };
  picture.a = curves_of(request.a);
  picture.b = curves_of(request.b);
  picture.ghost = curves_of(request.ghost);
  for (const CurvesPointer& curves : {picture.a, picture.b, picture.ghost})
    if (curves) picture.highest = std::max(picture.highest, highest_of(*curves));
  for (const CurvesPointer& curves : {picture.a, picture.b})
    if (curves) add_held(*curves, picture.held);
  return picture;
}

}  // namespace shardscope::gui

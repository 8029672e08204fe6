// One rank of one side, laid out on tracks and lanes: what the timeline draws of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gui/data/coverage.h"
#include "gui/data/scenario.h"
#include "gui/data/span_lanes.h"
#include "traces/trace.h"

namespace shardscope::gui {

/// What lies over many spans that follow one another: a phase of a micro-batch, a unit.
struct TimelineSection {
  std::string name;
  std::optional<std::string> unit;  ///< none: a phase
  SpanColour colour = SpanColour::annotation;
  bool operator==(const TimelineSection&) const = default;
};

/// In the order of rows.
enum class TrackGroup : std::uint8_t { phases, units, streams, host, threads };

/// What the ids of a track's lanes are.
enum class LaneItems : std::uint8_t {
  spans,     ///< indices into Trace::spans
  events,    ///< indices into ImportedTrace::events
  sections,  ///< indices into TimelineRank::sections
};

struct TimelineTrack {
  std::string label;
  TrackGroup group = TrackGroup::streams;
  Stream stream = Stream::compute;  ///< of streams
  LaneItems items = LaneItems::spans;
  std::vector<SpanLane> lanes;  ///< at least one
};

struct TimelineRank {
  ScenarioPointer scenario;
  SideKind side = SideKind::profiled;
  std::size_t rank = 0;  ///< index into Side::ranks
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const ImportedTrace> imported;  ///< null: a run of our own
  std::int64_t event_offset_ns = 0;               ///< from an event's time to the trace's clock
  std::vector<TimelineSection> sections;
  std::vector<TimelineTrack> tracks;  ///< by group, then stream
  Coverage coverage;
  /// Spans of an imported trace that are an operation of the prediction, by span.
  std::vector<std::pair<std::uint32_t, OperationId>> matched;

  /// The operation of the schedule that the span is; none: it is none, or it is not known.
  OperationId operation_of(std::size_t span) const;
  std::string_view name_of(LaneItems items, std::uint32_t id) const;
  /// Facts of an operation of the schedule: of the trace, or of the prediction that an imported
  /// trace was matched with. Null: none.
  const OperationFacts* facts_of(OperationId operation) const;
  /// Index of the prediction's rank beside this one; only where there is a prediction.
  std::size_t predicted_rank() const;
};

using TimelineRankPointer = std::shared_ptr<const TimelineRank>;

/// `side` must have the rank. O(spans + events). On a stop request something is missing.
TimelineRank prepare_rank(const ScenarioPointer& scenario, SideKind side, std::size_t rank,
                          const std::stop_token& stop = {});

}  // namespace shardscope::gui

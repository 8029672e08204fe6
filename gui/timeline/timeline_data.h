// Everything that the timeline shows of the scenarios that are chosen, ready to be drawn.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/data/time_map.h"
#include "gui/data/time_range.h"
#include "gui/timeline/timeline_memory.h"
#include "gui/timeline/timeline_rank.h"

namespace shardscope::gui {

/// One rank of one scenario: its two sides, one above the other. Indices into
/// TimelineData::sources.
struct TimelineBlock {
  std::string label;                     ///< "full_shard x2, rank 0"
  std::optional<std::size_t> predicted;  ///< the same for all ranks of a prediction that has one
  std::optional<std::size_t> profiled;
  bool is_first = false;  ///< of its scenario
  /// Both sides' memory, drawn on one scale; null: the side has none.
  MemoryTrackPointer predicted_memory, profiled_memory;

  std::optional<std::size_t> of(SideKind side) const {
    return side == SideKind::predicted ? predicted : profiled;
  }
  const MemoryTrack* memory_of(SideKind side) const {
    return (side == SideKind::predicted ? predicted_memory : profiled_memory).get();
  }
  /// The top of that scale.
  Bytes highest_memory() const;
};

struct TimelineData {
  std::vector<TimelineRankPointer> sources;
  std::vector<TimeMap> maps;  ///< of each source's clock
  std::vector<TimelineBlock> blocks;
  std::optional<std::size_t> ghost;  ///< the source drawn as an outline beside the others

  /// Where times of a source lie on the axis.
  TimeRange axis_range(std::size_t source, std::int64_t begin, std::int64_t end) const;
};

/// What is to be shown. `known` are ranks and tracks that were prepared before.
struct TimelineRequest {
  ScenarioPointer a, b, ghost;
  TimeMode mode = TimeMode::step;
  StepChoice step = {};
  std::vector<TimelineRankPointer> known;
  std::vector<MemoryTrackPointer> known_memory = {};
};

/// Blocks that show memory: a trace of many ranks would hold too many curves.
inline constexpr std::size_t most_memory_blocks = 16;

/// On a stop request something is missing.
TimelineData prepare_timeline(const TimelineRequest& request, const std::stop_token& stop = {});

/// One span on a lane.
struct SpanPlace {
  std::size_t source = 0, track = 0, lane = 0, index = 0;
  auto operator<=>(const SpanPlace&) const = default;
};

const SpanLane& lane_of(const TimelineData& data, const SpanPlace& place);
TimeRange axis_range(const TimelineData& data, const SpanPlace& place);
std::string_view name_of(const TimelineData& data, const SpanPlace& place);
/// Index into Trace::spans; none: an event or a section.
std::optional<std::size_t> span_of(const TimelineData& data, const SpanPlace& place);
OperationId operation_of(const TimelineData& data, const SpanPlace& place);

/// Where the item lies; none: on no lane.
std::optional<SpanPlace> place_of(const TimelineData& data, std::size_t source, LaneItems items,
                                  std::uint32_t id);
/// The operation's span of the source that lies nearest to `time` on the axis; on the device where
/// there is one.
std::optional<SpanPlace> place_of_operation(const TimelineData& data, std::size_t source,
                                            OperationId operation, double time);

}  // namespace shardscope::gui

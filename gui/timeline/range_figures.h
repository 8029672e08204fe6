// What a dragged range amounts to, on every side that is shown.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/timeline/timeline_data.h"
#include "traces/analysis.h"

namespace shardscope::gui {

/// Of one rank: the identity of both sides inside the range.
struct RangeAccounting {
  std::string label;                              ///< of the block
  std::optional<Accounting> predicted, profiled;  ///< none: nothing of a device is known
};

/// Spans of one name inside the range, over all ranks of the scenario.
struct RangeOperation {
  std::string name;
  SpanClass span_class = SpanClass::compute;
  Duration predicted, profiled;  ///< sum of what lies inside, a rank's mean where there are several
  std::int64_t predicted_count = 0, profiled_count = 0;  ///< of all ranks
};

struct RangeFigures {
  TimeRange range;
  std::vector<RangeAccounting> ranks;      ///< of the blocks, in their order
  std::vector<RangeOperation> operations;  ///< the longest first, at most `most_range_operations`
};
inline constexpr std::size_t most_range_operations = 50;

/// The part of the source's clock that lies in the range, to whole nanoseconds.
TimeWindow window_of(const TimelineData& data, std::size_t source, TimeRange range);

/// Exact, by account(); operations of the first scenario's device spans. O(spans in the range).
RangeFigures range_figures(const TimelineData& data, TimeRange range,
                           const std::stop_token& stop = {});

/// Communication that nothing was computed behind.
struct ExposedStretch {
  std::size_t source = 0;
  TimeWindow window;  ///< of the source's clock
  SpanPlace place;    ///< the collective that takes most of it
  std::string name, unit;
  Bytes bytes;
};
inline constexpr std::size_t most_exposed = 20'000;

/// The longest of all blocks that lie in the range, the longest first, at most `most_exposed`.
std::vector<ExposedStretch> longest_exposed(const TimelineData& data, TimeRange range,
                                            const std::stop_token& stop = {});

}  // namespace shardscope::gui

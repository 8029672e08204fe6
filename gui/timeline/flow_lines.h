// What leads to what, of all spans: launches to what they launched, flows of imported traces,
// collectives from rank to rank.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

struct FlowLine {
  SpanPlace from, to;
  double time = 0;       ///< of the begin of `to` on the axis
  bool is_peer = false;  ///< of one collective on two ranks: neither leads to the other
  bool operator==(const FlowLine&) const = default;
};

/// No more than so many are kept, of all traces together: those that are found first.
inline constexpr std::size_t most_flow_lines = 1'000'000;

/// By time. Launches of our own traces by operation and step, of imported ones by correlation, the
/// other flows as the file has them ("fwdbwd"), collectives between each rank of a side and the
/// next. O(n log n) in spans and events. After a stop request the answer is not complete.
std::vector<FlowLine> flow_lines(const TimelineData& data, const std::stop_token& stop = {});

/// Those that end in the range; at most `most`, evenly chosen where there are more.
std::vector<FlowLine> flows_in(const std::vector<FlowLine>& lines, TimeRange range,
                               std::size_t most);

}  // namespace shardscope::gui

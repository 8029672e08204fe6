// What is known of one span, in words: for hovering and for the selection.
#pragma once

#include <string>
#include <vector>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

struct SpanDetail {
  std::string what;   ///< "duration"
  std::string value;  ///< "1.25 ms"
};

/// Name, class, unit, phase, bytes, begin and duration; of collectives the rates that NCCL's tests
/// call algbw and busbw; the same operation on the other side with the signed error (predicted -
/// profiled) / profiled; how long after its call it began. O(spans).
std::vector<SpanDetail> span_details(const TimelineData& data, const SpanPlace& place);

/// What a screen reader says of a selected span: "all_gather layers.1, one profiled, rank 0,
/// unshard, 75.0 us, begin 50.0 us on the axis, unit layers.1, 50.0 us exposed: ...".
std::string announcement(const std::vector<SpanDetail>& details, const std::string& reason);

}  // namespace shardscope::gui

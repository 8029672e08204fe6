// Why a collective is exposed, in one sentence with its figures, and what would hide it.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

/// How much of a collective runs while nothing is computed.
struct ExposedTime {
  Duration exposed, whole;
};
/// None where the span is no collective, or all of it is hidden. O(log n).
std::optional<ExposedTime> exposed_time(const TimelineData& data, const SpanPlace& place);

/// "1.48 ms exposed: rank 1 came 1.40 ms late". The first reason that makes at least half of it: a
/// rank that came late (by an instrument, else by the ranks' clocks), how much longer it took than
/// predicted, the computation that waits for it, or that no computation follows it. "" where
/// nothing is exposed. O(spans).
std::string exposed_reason(const TimelineData& data, const SpanPlace& place);

/// What the prediction says of other prefetching: "prefetch both would hide it" or "prefetch both
/// would leave 0.20 ms of its predicted 1.48 ms exposed"; of those that help the one that leaves
/// least. "" where none does, where the run has no settings to change (What-if), or on a stop
/// request. Predicts a step for each choice.
std::string prefetch_remedy(const TimelineData& data, const SpanPlace& place,
                            const std::stop_token& stop = {});

}  // namespace shardscope::gui

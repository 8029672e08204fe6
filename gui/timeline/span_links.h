// From a span to those that belong to it: the other side, other ranks, its launch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

/// The span itself and all that are linked with it, in a fixed order, so that one can go round: the
/// same operation on the other side and on other ranks of its scenario, and of
/// imported traces the call and what it launched (the same correlation), and what flows lead to.
/// O(events).
std::vector<SpanPlace> linked_spans(const TimelineData& data, const SpanPlace& place);

/// The innermost span of the track that holds the time on the file's clock; none: there is none.
std::optional<std::uint32_t> span_around(const ImportedTrace& from, std::uint32_t track,
                                         std::int64_t time);

}  // namespace shardscope::gui

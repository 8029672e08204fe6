// What is alive at the peak of a side's shown step.
#pragma once

#include <cstddef>
#include <optional>

#include "gui/data/live_set.h"

namespace shardscope::gui {

/// Of the side's rank; none without memory over time.
std::optional<LiveSet> live_at_peak(const Scenario& scenario, SideKind kind, std::size_t rank);

}  // namespace shardscope::gui

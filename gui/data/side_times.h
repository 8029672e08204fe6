// Where the clocks of a scenario's sides lie on the axis that views share.
#pragma once

#include <cstddef>
#include <optional>

#include "gui/data/scenario.h"
#include "gui/data/time_map.h"
#include "gui/data/time_range.h"

namespace shardscope::gui {

/// `rank`: index into Side::ranks. In the mode `unit` begins of units are laid where they are in
/// the prediction of `reference` (or of the scenario itself), else in its profiled side; a scenario
/// that has nothing to be laid on keeps its own times.
TimeMap time_map(const Scenario& scenario, SideKind side, std::size_t rank, TimeMode mode,
                 const Scenario* reference);

/// From the earliest begin to the latest end of its sides: of the shown step, or of all spans in
/// the mode `time`. None without any trace.
std::optional<TimeRange> axis_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference);

}  // namespace shardscope::gui

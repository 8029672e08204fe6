// Where the clocks of a scenario's sides lie on the axis that views share.
#pragma once

#include <cstddef>
#include <optional>

#include "gui/data/scenario.h"
#include "gui/data/time_map.h"
#include "gui/data/time_range.h"
#include "gui/data/trace_times.h"

namespace shardscope::gui {

/// `rank`: index into Side::ranks. In the mode `unit` begins of units are laid where they are in
/// the prediction of `reference` (or of the scenario itself), else in its profiled side; a scenario
/// that has nothing to be laid on keeps its own times.
TimeMap time_map(const Scenario& scenario, SideKind side, std::size_t rank, TimeMode mode,
                 const Scenario* reference, StepChoice step = {});

/// From the earliest begin to the latest end of its sides: of the chosen step, or of all spans in
/// the mode `time`. None without any trace.
std::optional<TimeRange> axis_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference, StepChoice step = {});

/// Where the chosen step lies on the axis of any mode, over both sides; none without any trace.
std::optional<TimeRange> step_extent(const Scenario& scenario, TimeMode mode,
                                     const Scenario* reference, StepChoice step);

}  // namespace shardscope::gui

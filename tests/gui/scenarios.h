// Small scenarios made by hand, for tests of views.
#pragma once

#include <memory>
#include <string>

#include "gui/data/scenario.h"

namespace shardscope::testing {

/// One step of 100 us on rank 0: compute [0, 60) of unit layers.0 (operation 1), an all_gather
/// [40, 100) (operation 2), 10 MiB of parameters and 5 MiB of activations from 20 us on; predicted
/// and profiled, the profiled times `stretch` times as long and `begin_us` later on its clock.
gui::ScenarioPointer small_scenario(const std::string& label, double stretch = 1.25,
                                    std::int64_t begin_us = 0);

/// The same with two profiled ranks whose clocks are known to 1 us: the all_gather of rank 1 begins
/// `late_us` later than that of rank 0, and is shorter by as much. Nothing is stretched.
gui::ScenarioPointer late_rank_scenario(const std::string& label, std::int64_t late_us);

}  // namespace shardscope::testing

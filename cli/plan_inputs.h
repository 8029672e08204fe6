// The options of `shardscope plan` resolved to what its answer follows from.
#pragma once

#include "cli/plan_options.h"
#include "sim/planner/answer/inputs.h"

namespace shardscope {

/// Ranks that a plan is about where nobody says how many.
int ranks_of_a_node(const HardwareProfile& profile);

/// Throws Error naming option, key or file.
planner::Inputs resolve_plan(const PlanOptions& options);

}  // namespace shardscope

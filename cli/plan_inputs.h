// The options of `shardscope plan` resolved to what its answer follows from.
#pragma once

#include "cli/plan_options.h"
#include "sim/planner/answer/inputs.h"

namespace shardscope {

/// Throws Error naming option, key or file.
planner::Inputs resolve_plan(const PlanOptions& options);

}  // namespace shardscope

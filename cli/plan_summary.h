// The figures of one choice, whatever the number of its micro-batches.
#pragma once

#include "cli/plan_inputs.h"
#include "sim/planner/trial.h"
#include "traces/memory_fit.h"
#include "traces/summary.h"

namespace shardscope {

/// As `simulate` predicts it. Of more than 8 micro-batches three are played with the allocator,
/// from which on memory is the same, and the time is the trial's, which is made of three as well.
/// Throws as prediction does.
Summary summary_of(const planner::Choice& choice, const PlanInputs& inputs,
                   const planner::TrialInputs& planning);

}  // namespace shardscope

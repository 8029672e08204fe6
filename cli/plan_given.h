// The configuration file that was given: which choice it is, where it stands, and what its
// smallest mend is.
#pragma once

#include <vector>

#include "cli/plan_answer.h"

namespace shardscope {

/// The planner's choice that comes nearest to a training: what it has no place for is left out.
planner::Choice choice_of(const PytorchScenario& scenario);

/// Predicts the file's run, and looks for the fewest settings (one, then two) that change it into
/// one of `choices` that fits, or that is faster than it by more than a percent.
GivenFile place_of_given(const PlanInputs& inputs, const std::vector<planner::Choice>& choices,
                         const planner::TrialInputs& planning, const PlanProgress& progress);

}  // namespace shardscope

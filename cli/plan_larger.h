// What to do where nothing fits.
#pragma once

#include <string>
#include <vector>

#include "cli/plan_inputs.h"
#include "sim/planner/search.h"

namespace shardscope {

/// How far off the nearest choice is, and on how many ranks something fits: lines for people.
std::vector<std::string> advice_where_nothing_fits(const PlanInputs& inputs,
                                                   const std::vector<planner::Choice>& choices,
                                                   const std::vector<planner::Outcome>& outcomes,
                                                   const planner::TrialInputs& planning);

}  // namespace shardscope

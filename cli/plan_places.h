// Run folders of a plan's places.
#pragma once

#include <filesystem>

#include "cli/plan_options.h"
#include "sim/planner/answer/answer.h"

namespace shardscope {

/// Leaves what `simulate -o` leaves of each place in `folder`/places/1, places/2 and so on, so that
/// `compare` and the application open them. Each is predicted again for its trace; of more than 8
/// micro-batches only the plan's figures are left. A stop leaves the places so far.
void leave_places(const std::filesystem::path& folder, const planner::Answer& answer,
                  const planner::Inputs& inputs, PlanOptions options, const std::stop_token& stop);

}  // namespace shardscope

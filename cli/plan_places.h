// Run folders of a plan's places.
#pragma once

#include <filesystem>

#include "cli/plan_options.h"
#include "sim/planner/answer/answer.h"

namespace shardscope {

/// Leaves what `simulate -o` leaves of each place in `folder`/places/1, places/2 and so on, so that
/// `compare` and the application open them. Predicts each again, with its trace. Stops, without
/// half a folder, where `stop` is asked for.
void leave_places(const std::filesystem::path& folder, const planner::Answer& answer,
                  const planner::Inputs& inputs, PlanOptions options, const std::stop_token& stop);

}  // namespace shardscope

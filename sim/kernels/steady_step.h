// Operations that are put between those of the step that stands for the run.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Appends what stands in the place of one action: most often the action and further ones.
using PutAction = std::function<void(std::uint32_t index, std::vector<HostAction>& actions)>;

/// Calls `put` for each action of the schedule's last step, by its index in the program. `put` may
/// add operations to the schedule; the step's ranges include them afterwards.
void rewrite_steady_step(Schedule& schedule, const PutAction& put);

}  // namespace shardscope

// The collectives of a schedule's steady step, each kind, group and size once, with their costs.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/summary.h"

namespace shardscope {

/// In order of first use; of groups of more than one rank.
std::vector<CollectiveSummary> collective_rows(const Schedule& schedule,
                                               const HardwareProfile& profile);

}  // namespace shardscope

// A pipeline schedule: which rank has which stage, and what each rank does in which order.
#pragma once

#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"

namespace shardscope {

/// PyTorch lowers all but GPipe and 1F1B; what it runs of these two is in program.h.
struct LoweredSchedule {
  std::vector<ActionOrder> computes;  ///< by rank, idle places included
  std::vector<ActionOrder> lowered;   ///< by rank, with all communication
};

/// As PyTorch's constructor makes it; throws Refusal where it refuses.
LoweredSchedule lowered_schedule(const PipelineSetup& setup);

}  // namespace shardscope

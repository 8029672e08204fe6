// What a prediction's summary takes over from its schedule and the machine.
#pragma once

#include "core/schedule/schedule.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"
#include "traces/summary.h"

namespace shardscope {

MemorySummary memory_of(const Schedule& schedule, const StepMemory& memory, Bytes outside);

RunFacts facts_of(const Schedule& schedule, const PredictedRun& run,
                  const HardwareProfile& profile);

/// Ranks of one job that share a node's memory.
int ranks_of_node(const HardwareProfile& profile, int world);

/// What is offloaded lies in the host's memory, that of all ranks of a node together.
void add_host_memory(const Schedule& schedule, const HardwareProfile& profile, Summary& summary);

}  // namespace shardscope

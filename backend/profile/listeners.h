// Who hears of every step of a run, in a profiling window or not.
#pragma once

#include <memory>
#include <vector>

#include "backend/executor/probe.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// NVTX's ranges where a tool listens, NCCL's events where NCCL tells of them: none of them as a
/// rule, on the CPU. To be made before the first step; `schedule` must outlive them.
std::vector<std::unique_ptr<Probe>> make_listeners(const Schedule& schedule);

/// As the executor takes them.
std::vector<Probe*> probes_of(const std::vector<std::unique_ptr<Probe>>& listeners);

}  // namespace shardscope

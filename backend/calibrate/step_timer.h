// Times the kernels of a training step in the order in which the step runs them, caches as warm or
// cold as they are there.
#pragma once

#include <vector>

#include "backend/communicator.h"
#include "backend/device.h"
#include "core/samples.h"
#include "core/schedule.h"

namespace shardscope {

struct StepTimes {
  std::vector<KernelSample>
      kernels;  ///< every distinct kernel of the step: median over its calls, mean over ranks
  Duration operation_overhead;  ///< what the step took beyond its operations, by operation
};

/// Every rank runs `schedule`, which is of one rank and has no collectives, for itself at the same
/// time: once to warm up, then `steps` times, on small made-up weights and tokens. Collective over
/// `world`.
StepTimes time_step(Communicator& world, Device& device, const Schedule& schedule, int steps);

}  // namespace shardscope

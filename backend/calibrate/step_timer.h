// Times the kernels of a training step in the order in which the step runs them, caches as warm or
// cold as they are there.
#pragma once

#include <vector>

#include "backend/calibrate/core_use.h"
#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "core/schedule/samples.h"
#include "core/schedule/schedule.h"

namespace shardscope {

struct MeasuredStep {
  /// Every distinct kernel of the step: median over its calls, mean over ranks. Where ranks share
  /// cores, times a factor for all of them with which they add up to the compute of the median
  /// step: there a call is either not interrupted or takes several times as long.
  std::vector<KernelSample> kernels;
  Duration operation_overhead;  ///< what the step took beyond its operations, by operation
  /// What the step that warms up took longer than the median of the others, mean over ranks.
  Duration first_step_overhead;
  /// Of every step, after its 64 parts, 16, 4 and the whole; the whole alone where ranks share
  /// cores, because a rank that waits leaves its core to the others. None with one rank.
  std::vector<StragglingSample> straggling;
};

/// Every rank runs `schedule`, which is of one rank and has no collectives, for itself at the same
/// time: once to warm up, then `steps` times, on small made-up weights and tokens. Collective over
/// `world`.
MeasuredStep time_step(Communicator& world, Device& device, const Schedule& schedule,
                       const CoreUse& cores, int steps);

}  // namespace shardscope

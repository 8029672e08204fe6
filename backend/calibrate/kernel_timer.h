// Times kernels, each by itself, on all ranks at once.
#pragma once

#include "backend/communicator.h"
#include "backend/device.h"
#include "core/samples.h"

namespace shardscope {

/// Runs `kernel` on every rank at the same time: once to warm up, then as often as fits into
/// `budget`, 3 to 25 times. The sample is the mean over ranks of each rank's median. Collective
/// over `world`.
KernelSample time_kernel(Communicator& world, Device& device, const Kernel& kernel,
                         Duration budget);

}  // namespace shardscope

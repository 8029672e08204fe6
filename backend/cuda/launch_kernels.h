// The kernels compiled for the device, for code that nvcc does not compile.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/device/device.h"

namespace shardscope::cuda {

/// Loads the code of whatever a call of `kernel` may launch.
void load_kernel(const Kernel& kernel);
void load_set_step_state();

/// Queues the launches of one call; the kernel must have been loaded. `step_state` is in the
/// device's memory, and read when they run.
void launch_kernel(const Kernel& kernel, const KernelCall& call, const StepState* step_state,
                   cudaStream_t stream);

/// Queues the writing of `value`.
void set_step_state(const StepState& value, StepState* step_state, cudaStream_t stream);

}  // namespace shardscope::cuda

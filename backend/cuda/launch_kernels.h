// The kernels compiled for the device, for code that nvcc does not compile.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/device.h"

namespace shardscope::cuda {

/// Queues the launches of one call.
void launch_kernel(const Kernel& kernel, const KernelCall& call, cudaStream_t stream);

}  // namespace shardscope::cuda

#include "backend/cuda/launch_kernels.h"

#include "backend/cuda/device_stream.cuh"
#include "backend/cuda/kernels/kernels.h"

namespace shardscope::cuda {

void launch_kernel(const Kernel& kernel, const KernelCall& call, cudaStream_t stream) {
  DeviceStream on(stream);
  run_kernel(kernel, call, on);
}

}  // namespace shardscope::cuda

#include "backend/cuda/launch_kernels.h"

#include "backend/cuda/device_stream.cuh"
#include "backend/cuda/kernels/every_call.h"
#include "backend/cuda/kernels/kernels.h"

namespace shardscope::cuda {

void launch_kernel(const Kernel& kernel, const KernelCall& call, const StepState* step_state,
                   cudaStream_t stream) {
  DeviceStream on(stream, step_state);
  run_kernel(kernel, call, on);
}

void load_kernel(const Kernel& kernel) {
  LoadingStream loading;
  for_every_call(kernel, [&](const KernelCall& call) { run_kernel(kernel, call, loading); });
}

void load_set_step_state() { LoadingStream().launch(SetStepState{}, {.threads = warp_size}); }

void set_step_state(const StepState& value, StepState* step_state, cudaStream_t stream) {
  DeviceStream(stream, step_state).launch(SetStepState{value, step_state}, {.threads = warp_size});
}

}  // namespace shardscope::cuda

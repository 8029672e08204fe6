#include "backend/cuda/launch_kernels.h"

#include <array>

#include "backend/cuda/device_stream.cuh"
#include "backend/cuda/kernels/kernels.h"

namespace shardscope::cuda {

void launch_kernel(const Kernel& kernel, const KernelCall& call, const StepState* step_state,
                   cudaStream_t stream) {
  DeviceStream on(stream, step_state);
  run_kernel(kernel, call, on);
}

void load_kernel(const Kernel& kernel) {
  // Every operand is there, so that everything which a call might launch is loaded; nothing looks
  // where it points.
  alignas(256) static std::byte somewhere[256];
  constexpr std::size_t most_operands = 16;
  std::array<void*, most_operands> operands;
  operands.fill(somewhere);
  const std::array<Slice, 1> slices{Slice{.elements = 1}};
  LoadingStream loading;
  run_kernel(kernel, {.operands = operands, .slices = slices, .state = {}}, loading);
}

void load_set_step_state() { LoadingStream().launch(SetStepState{}, {.threads = warp_size}); }

void set_step_state(const StepState& value, StepState* step_state, cudaStream_t stream) {
  DeviceStream(stream, step_state).launch(SetStepState{value, step_state}, {.threads = warp_size});
}

}  // namespace shardscope::cuda

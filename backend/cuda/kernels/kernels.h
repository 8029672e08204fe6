// Every kernel of the CUDA device by its kind; operands as core/schedule/kernel_structs.h lists
// them.
#pragma once

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/cross_entropy.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/embedding.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/kernels/norm.h"
#include "backend/cuda/kernels/optimizer.h"
#include "backend/cuda/kernels/rope.h"

namespace shardscope::cuda {

/// Starts the launches of one call on `stream`, which has `launch(body, LaunchShape)` and
/// `step_state()`: where in the device's memory the kernels find the state of the step.
template <class Stream>
void run_kernel(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  kernel.visit([&](const auto& of_kind) { run(of_kind, call, stream); });
}

}  // namespace shardscope::cuda

// What each kernel wants as its last operand.
#pragma once

#include "backend/cuda/kernels/kernels.h"

namespace shardscope::cuda {

/// Scratch bytes that `run_kernel` wants as the last operand.
inline Bytes kernel_workspace(const Kernel& kernel) {
  switch (kernel.kind) {
    case KernelKind::embedding_backward:
      return embedding_backward_workspace(kernel);
    case KernelKind::norm_backward:
      return norm_backward_workspace(kernel);
    case KernelKind::linear_backward_weight:
      return linear_backward_weight_workspace(kernel);
    case KernelKind::attention_backward:
      return attention_backward_workspace(kernel);
    case KernelKind::cross_entropy:
      return cross_entropy_workspace(kernel);
    default:
      return {};
  }
}

}  // namespace shardscope::cuda

// What each kernel wants as its last operand.
#pragma once

#include "backend/cuda/kernels/kernels.h"

namespace shardscope::cuda {

/// Scratch bytes that `run_kernel` wants as the last operand.
inline Bytes kernel_workspace(const Kernel& kernel) {
  return kernel.visit([](const auto& of_kind) -> Bytes {
    if constexpr (requires { workspace(of_kind); })
      return workspace(of_kind);
    else
      return {};
  });
}

}  // namespace shardscope::cuda

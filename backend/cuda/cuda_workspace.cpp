#include "backend/cuda/cuda_workspace.h"

#include <algorithm>

#include "backend/cuda/kernels/workspace.h"

namespace shardscope {
namespace {

bool is_linear(KernelKind kind) {
  return kind == KernelKind::linear_forward || kind == KernelKind::linear_backward_input ||
         kind == KernelKind::linear_backward_weight;
}

}  // namespace

Bytes cuda_workspace(const Kernel& kernel, bool by_library) {
  const Bytes own = cuda::kernel_workspace(kernel);
  return by_library && is_linear(kernel.kind) ? std::max(own, cublaslt_workspace) : own;
}

}  // namespace shardscope

#include "backend/cuda/cuda_workspace.h"

#include <algorithm>

#include "backend/cuda/kernels/workspace.h"

namespace shardscope {
namespace {

constexpr Bytes little = 4_KiB;

Bytes cudnn_workspace(const AttentionBackwardKernel& kernel) {
  constexpr std::int64_t tile = 128, half = 2, single = 4;
  const std::int64_t heads = kernel.batch * kernel.heads;
  const std::int64_t filled = cuda::blocks_for(kernel.length, tile) * tile;
  Bytes bytes = little + Bytes{heads * (filled * filled * half + filled * single)};
  if (kernel.heads != kernel.kv_heads)
    bytes += Bytes{2 * heads * kernel.length * kernel.head_dim * half};
  return bytes;
}

}  // namespace

bool fits_cudnn_attention(const Kernel& kernel) {
  const AttentionKernel* attention = attention_of(kernel);
  return attention && cuda::fits_flash_attention(*attention);
}

Bytes cudnn_attention_workspace(const Kernel& kernel) {
  if (kernel.kind() == KernelKind::attention_forward) return little;
  return cudnn_workspace(kernel.get<AttentionBackwardKernel>());
}

bool wants_cudnn(const Kernel& kernel, CudaAttention attention) {
  if (attention == CudaAttention::own || !fits_cudnn_attention(kernel)) return false;
  return attention == CudaAttention::cudnn || kernel.kind() == KernelKind::attention_forward;
}

Bytes cuda_workspace(const Kernel& kernel, bool by_library, CudaAttention attention) {
  const Bytes own = cuda::kernel_workspace(kernel);
  if (wants_cudnn(kernel, attention)) return std::max(own, cudnn_attention_workspace(kernel));
  return by_library && is_linear(kernel.kind()) ? std::max(own, cublaslt_workspace) : own;
}

}  // namespace shardscope

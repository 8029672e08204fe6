// Which of our own attention kernels runs a call.
#pragma once

#include "backend/cuda/kernels/flash_backward.h"
#include "backend/cuda/kernels/flash_forward.h"
#include "backend/cuda/kernels/plain_attention.h"

namespace shardscope::cuda {

template <class Stream>
void run(const AttentionForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  if (fits_flash_attention(kernel)) return flash_attention_forward(kernel, call, stream);
  plain_attention_forward(kernel, call, stream);
}

template <class Stream>
void run(const AttentionBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  if (fits_flash_attention(kernel)) return flash_attention_backward(kernel, call, stream);
  plain_attention_backward(kernel, call, stream);
}

/// delta[B,H,T]
inline Bytes workspace(const AttentionBackwardKernel& kernel) {
  return {kernel.batch * kernel.heads * kernel.length * static_cast<std::int64_t>(sizeof(float))};
}

}  // namespace shardscope::cuda

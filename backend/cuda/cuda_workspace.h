// The scratch that the CUDA device's kernels want, known without a device: what is planned on
// another machine is what is laid out on this one.
#pragma once

#include <cstdint>

#include "core/base/quantities.h"
#include "core/schedule/kernel.h"

namespace shardscope {

/// What cuBLASLt may use beside the operands of a matrix product. NVIDIA recommends 32 MiB for
/// Hopper (cuBLAS 13.0 documentation, cublasSetWorkspace).
inline constexpr Bytes cublaslt_workspace{32 << 20};

/// Who makes attention. cuDNN's forward is the faster one on Hopper and wants next to nothing; its
/// backward, made to repeat bit for bit, keeps a number for each pair of query and key.
enum class CudaAttention : std::uint8_t {
  automatic,  ///< cuDNN's forward where there is cuDNN, our backward
  own,
  cudnn,  ///< both passes, wherever it takes the shape
};

/// What cuDNN's deterministic attention may want: forward a little; backward in bfloat16 a
/// probability for each query and key, both filled up to 128, a number a query, and for grouped
/// heads dk and dv of each head. Source: the workspace of cuDNN 9.19's plans for sm_90
/// (tests/backend/cuda/cudnn_plan_test.cpp).
Bytes cudnn_attention_workspace(const Kernel& kernel);

/// bfloat16, causal, with rows that start on 16 bytes: what cuDNN is asked for.
bool fits_cudnn_attention(const Kernel& kernel);

/// Bytes of the last operand of `kernel`, the same with cuDNN and without unless it is asked for by
/// name; `by_library`: matrix products are cuBLASLt's.
Bytes cuda_workspace(const Kernel& kernel, bool by_library = true,
                     CudaAttention attention = CudaAttention::automatic);

/// Whether cuDNN, where it is there, is what should run this kernel.
bool wants_cudnn(const Kernel& kernel, CudaAttention attention);

}  // namespace shardscope

// The scratch that the CUDA device's kernels want, known without a device: what is planned on
// another machine is what is laid out on this one.
#pragma once

#include "core/kernel.h"
#include "core/quantities.h"

namespace shardscope {

/// What cuBLASLt may use beside the operands of a matrix product. NVIDIA recommends 32 MiB for
/// Hopper (cuBLAS 13.0 documentation, cublasSetWorkspace).
inline constexpr Bytes cublaslt_workspace{32 << 20};

/// Bytes of the last operand of `kernel`; `by_library`: matrix products are cuBLASLt's.
Bytes cuda_workspace(const Kernel& kernel, bool by_library = true);

}  // namespace shardscope

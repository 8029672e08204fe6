// Matrix products by cuBLASLt: bias, gelu and bias gradients in the epilogue, residual and
// accumulation as beta, descriptors and algorithm kept per kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/device/device.h"

namespace shardscope::cuda {

class CublasLtMatmul {
 public:
  CublasLtMatmul();
  ~CublasLtMatmul();

  /// Chooses the algorithm, once for each kernel. Only algorithms that add in one order are taken.
  void prepare(const Kernel& kernel);
  /// Whether `run` does the kernel's gelu or bias gradient, too: where the library has an algorithm
  /// for it on this GPU. The kernel must have been prepared.
  bool is_joined(const Kernel& kernel) const;
  /// The product of a linear kernel; where nothing is joined of one with a gelu the product before
  /// it, of `linear_backward_weight` without the bias gradient. The kernel must have been prepared;
  /// the workspace is the last operand.
  void run(const Kernel& kernel, const KernelCall& call, cudaStream_t stream);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace shardscope::cuda

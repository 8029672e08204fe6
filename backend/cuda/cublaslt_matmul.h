// Matrix products by cuBLASLt: bias in the epilogue, residual and accumulation as beta, descriptors
// and algorithm kept per kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/device.h"

namespace shardscope::cuda {

class CublasLtMatmul {
 public:
  CublasLtMatmul();
  ~CublasLtMatmul();

  /// Chooses the algorithm, once for each kernel. Only algorithms that add in one order are taken.
  void prepare(const Kernel& kernel);
  /// The product of a linear kernel; of `linear_backward_weight` without the bias gradient. The
  /// kernel must have been prepared; the workspace is the last operand.
  void run(const Kernel& kernel, const KernelCall& call, cudaStream_t stream);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace shardscope::cuda

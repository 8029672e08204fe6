// Matrix products by a library (oneDNN), where there is one.
#pragma once

#include <memory>
#include <string>

#include "backend/device/device.h"
#include "core/schedule/kernel.h"

namespace shardscope::cpu {

class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  virtual std::string description() const = 0;  ///< "oneDNN 2.6.3 (avx512_core)"
  /// False for a product that this processor cannot run with the library (bfloat16 before AVX-512).
  virtual bool can_run(const Kernel& kernel) const = 0;
  virtual Bytes workspace(const Kernel& kernel) const = 0;
  /// Builds the kernel's primitives; `run` may be called only after this.
  virtual void prepare(const Kernel& kernel) = 0;
  /// y, dx or dweight of the three linear kernels; the bias gradient is not made here.
  virtual void run(const Kernel& kernel, const KernelCall& call) = 0;
};

/// Null where this build has no library.
std::unique_ptr<MatmulLibrary> make_matmul_library(int threads);

}  // namespace shardscope::cpu

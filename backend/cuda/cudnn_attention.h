// Causal attention as graphs for cuDNN, forward and backward, and the plans made of them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "backend/device/device.h"

namespace shardscope::cuda {

struct CudnnPlan;
class CudnnDescriptor;

/// The best plan of a kernel for a device, repeating bit for bit, within the workspace that
/// cudnn_attention_workspace() gives; none where cuDNN has none.
std::optional<CudnnPlan> plan_attention(const Kernel& kernel, const CudnnDescriptor& device);

class CudnnAttention {
 public:
  /// For the device `index`. Throws Error (ExitCode::outside) where cuDNN is missing or too old.
  explicit CudnnAttention(int index);
  ~CudnnAttention();

  /// Makes the plan, once for each kernel. False: cuDNN has none for it.
  bool prepare(const Kernel& kernel);
  /// Whether a plan was made.
  bool has(const Kernel& kernel) const;
  /// Operands as core/schedule/kernel_structs.h has them; the kernel must have a plan.
  void run(const Kernel& kernel, const KernelCall& call, cudaStream_t stream);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace shardscope::cuda

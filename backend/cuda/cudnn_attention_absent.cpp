#include <optional>

#include "backend/cuda/cudnn_attention.h"
#include "core/base/error.h"

namespace shardscope::cuda {

struct CudnnAttention::Library {};

CudnnAttention::CudnnAttention(int) {
  throw Error({.where = "cuDNN",
               .what = "this build was made without its headers",
               .way_out = "build where cudnn.h lies beside CUDA's headers, or leave attention to "
                          "our own kernels",
               .code = ExitCode::outside});
}
CudnnAttention::~CudnnAttention() = default;
bool CudnnAttention::prepare(const Kernel&) { return false; }
bool CudnnAttention::has(const Kernel&) const { return false; }
void CudnnAttention::run(const Kernel&, const KernelCall&, cudaStream_t) {}

}  // namespace shardscope::cuda

#include "backend/cuda/cuda_device.h"
#include "core/base/error.h"

namespace shardscope {

int cuda_device_count() { return 0; }

std::string why_no_cuda_device() { return "this build was made without the CUDA toolkit"; }

std::unique_ptr<Device> make_cuda_device(const CudaOptions&) {
  throw Error({.where = "--device cuda",
               .what = why_no_cuda_device(),
               .way_out = "build where nvcc is on the PATH, or take --device cpu",
               .code = ExitCode::outside});
}

}  // namespace shardscope

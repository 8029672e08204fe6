#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_probe.h"
#include "core/base/error.h"

namespace shardscope {

CudaMemory probe_cuda_memory(int) {
  throw Error({.where = "--device cuda", .what = why_no_cuda_device(), .code = ExitCode::outside});
}

std::string cuda_bus_place(int) { return ""; }

std::string cuda_clocks(int) { return ""; }

}  // namespace shardscope

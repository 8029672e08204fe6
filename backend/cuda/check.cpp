#include "backend/cuda/check.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope::cuda {

void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  throw Error({.where = std::string(call),
               .what = fmt::format("{} ({})", cudaGetErrorString(result), cudaGetErrorName(result)),
               .code = ExitCode::outside});
}

}  // namespace shardscope::cuda

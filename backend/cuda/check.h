// Errors of the CUDA runtime as ours.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace shardscope::cuda {

/// Throws Error (ExitCode::outside) naming `call` unless all went well.
void check(cudaError_t result, std::string_view call);

}  // namespace shardscope::cuda

// A kernel that is put on a stream.
#pragma once

#include <cstddef>

#include "backend/recorder/device/cuda_abi.h"

namespace shardscope::recorder {

/// `stream`: as the caller of CUDA has it.
void launch(const char* name, Dim3 grid, Dim3 block, std::size_t shared_bytes, void* stream);

}  // namespace shardscope::recorder

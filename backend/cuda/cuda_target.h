// What schedules for the CUDA device are made for, known without one.
#pragma once

#include "backend/cuda/cuda_workspace.h"
#include "core/schedule/target.h"

namespace shardscope {

/// `by_library`: matrix products are cuBLASLt's, with what it joins to them.
Target cuda_target(bool by_library = true, CudaAttention attention = CudaAttention::automatic);

}  // namespace shardscope

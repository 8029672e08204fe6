#include "backend/cuda/cuda_target.h"

namespace shardscope {

Target cuda_target(bool by_library, CudaAttention attention) {
  return {.workspace =
              [by_library, attention](const Kernel& kernel) {
                return cuda_workspace(kernel, by_library, attention);
              },
          .fusions = {.linear_gelu = true}};
}

}  // namespace shardscope

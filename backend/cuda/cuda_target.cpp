#include "backend/cuda/cuda_target.h"

#include "backend/cuda/cuda_workspace.h"

namespace shardscope {

Target cuda_target(bool by_library) {
  return {.workspace =
              [by_library](const Kernel& kernel) { return cuda_workspace(kernel, by_library); },
          .fusions = {.linear_gelu = true}};
}

}  // namespace shardscope

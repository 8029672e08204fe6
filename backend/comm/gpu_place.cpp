#include "backend/comm/gpu_place.h"

#include <algorithm>

namespace shardscope {

GpuPlace gpu_place(const Environment& environment, int gpus) {
  return {.index = environment.local_rank % std::max(1, gpus),
          .is_shared = environment.local_world > std::max(1, gpus) &&
                       environment.started_by != StartedBy::slurm};
}

}  // namespace shardscope

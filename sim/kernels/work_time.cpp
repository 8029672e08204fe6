#include "sim/kernels/work_time.h"

#include "sim/kernels/attention_time.h"
#include "sim/kernels/matmul_time.h"
#include "sim/kernels/memory_time.h"

namespace shardscope {

Duration work_time(const DeviceWork& work, const RooflineFigures& device,
                   const DeviceEfficiency& efficiency) {
  switch (work.kind) {
    case WorkKind::matmul:
      return matmul_time(work.matmul, work.dtype, device, efficiency);
    case WorkKind::attention_forward:
    case WorkKind::attention_backward:
      return attention_time(work, device, efficiency);
    default:
      return memory_bound_time(work, device, efficiency);
  }
}

}  // namespace shardscope

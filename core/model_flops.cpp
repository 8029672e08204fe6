#include "core/model_flops.h"

namespace shardscope {

Flops model_flops(const Schedule& schedule) {
  Flops forward;
  for (const Operation& operation : schedule.operations) {
    if (operation.phase == Phase::forward) forward += operation.flops;
  }
  return forward * 3;
}

}  // namespace shardscope

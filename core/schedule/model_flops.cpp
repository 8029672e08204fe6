#include "core/schedule/model_flops.h"

namespace shardscope {

Flops model_flops(const Schedule& schedule) {
  Flops forward;
  for (const Operation& operation : schedule.operations) {
    const bool last = static_cast<std::size_t>(operation.step) + 1 == schedule.steps.size();
    if (operation.phase == Phase::forward && last) forward += operation.flops;
  }
  return forward * 3;
}

}  // namespace shardscope

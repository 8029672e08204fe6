// The oracle of the compact step: the rows of a step played again and again on a NaiveDevice.
#pragma once

#include <span>
#include <vector>

#include "sim/engine/step_player.h"

namespace shardscope::testing {

/// Costs by operation.
struct OperationCosts {
  std::vector<Duration> times;
  std::vector<LinkUse> uses;
};

/// `step` of the schedule, `repetitions` times from an idle machine on.
StepTimes repeated_on_device(const Schedule& schedule, const Step& step,
                             const OperationCosts& costs, const DeviceClockOptions& clock,
                             int repetitions);

}  // namespace shardscope::testing

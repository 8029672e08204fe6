// The oracle of the compact step: the rows of a step played again and again on a TimedDevice.
#pragma once

#include <span>
#include <vector>

#include "sim/step_player.h"

namespace shardscope::testing {

/// `step` of the schedule, `repetitions` times from an idle machine on. `times`: by operation.
StepTimes repeated_on_device(const Schedule& schedule, const Step& step,
                             std::span<const Duration> times, const DeviceClockOptions& clock,
                             int repetitions);

}  // namespace shardscope::testing

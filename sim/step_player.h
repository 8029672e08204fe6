// The step time of a compact program on a machine: the event simulation that the planner runs
// thousands of times.
#pragma once

#include <vector>

#include "core/quantities.h"
#include "sim/cost_model.h"
#include "sim/step_program.h"
#include "sim/timed_device.h"
#include "traces/trace.h"

namespace shardscope {

/// What a step costs on a machine.
struct StepCosts {
  std::vector<Duration> times;  ///< by class of operations, alone
  std::vector<LinkUse> uses;    ///< by class: the links that collectives keep busy; none: no matter
  DeviceClockOptions clock;
};

/// Repetitions of one step, from an idle machine on. A step ends when its last operation has ended.
struct StepTimes {
  std::vector<Duration> ends;  ///< by repetition
  Accounting accounting;       ///< of the last one, from the end of the one before to its own
};

/// Of every class of the program's operations, and the host's and device's clocks by this profile.
StepCosts step_costs(const Schedule& schedule, const StepProgram& program, const CostModel& model,
                     const HardwareProfile& profile);

/// Steps until one counts as the one that repeats: as many as are recorded of a training.
inline constexpr int steps_to_steady = 3;

/// The times of `TimedDevice` under a `ProgramPlayer` that has memory enough, to the nanosecond:
/// the host issues as fast as it can unless it waits, lanes run side by side and slow each other.
/// Throws Error where lanes wait for each other.
StepTimes play(const StepProgram& program, const StepCosts& costs,
               int repetitions = steps_to_steady);

/// The same, repeated until a step takes as long as the one before it, to a part in 100,000 (at
/// most 24 times): the host may need some steps to be as far ahead as it gets.
StepTimes play_until_steady(const StepProgram& program, const StepCosts& costs);

}  // namespace shardscope

// The step time of a compact program on a machine: the simulation that the planner runs thousands
// of times.
#pragma once

#include <vector>

#include "core/base/quantities.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/step_program.h"
#include "traces/trace.h"

namespace shardscope {

/// Repetitions of one step, from an idle machine on. A step ends when its last operation has ended.
struct StepTimes {
  std::vector<Duration> ends;  ///< by repetition
  Accounting accounting;       ///< of the last one, from the end of the one before to its own
};

/// Of every class of the program's operations, and the host's and device's clocks by this profile.
StepCosts step_costs(const Schedule& schedule, const StepProgram& program, const CostModel& model,
                     const HardwareProfile& profile);

/// The times of `TimedDevice` under a `ProgramPlayer` that has memory enough, to the nanosecond:
/// the host issues as fast as it can unless it waits. Throws Error where lanes wait for each other.
StepTimes play(const StepProgram& program, const StepCosts& costs, int repetitions);

/// The same until a step is the one that repeats, see `StepProgram::repetitions_to_steady`.
StepTimes play(const StepProgram& program, const StepCosts& costs);

/// The same, repeated until a step takes as long as the one before it, to a part in 100,000 (at
/// most 24 times): the host may need some steps to be as far ahead as it gets.
StepTimes play_until_steady(const StepProgram& program, const StepCosts& costs);

}  // namespace shardscope

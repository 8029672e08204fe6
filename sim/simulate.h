// A schedule played on a machine that is only a profile: the predicted trace.
#pragma once

#include "core/schedule.h"
#include "sim/engine.h"
#include "sim/hardware_profile.h"
#include "traces/trace.h"

namespace shardscope {

struct Simulation {
  Trace trace;            ///< predicted; time 0 is the start of the step
  Accounting accounting;  ///< over the whole step; `span` is the step time
};

/// Plays one rank's schedule; ranks are symmetric, so that the cost does not grow with the world.
/// Throws Error where the profile lacks a figure that the schedule needs.
Simulation simulate(const Schedule& schedule, const HardwareProfile& profile);

/// How a device of this profile runs a schedule.
EngineOptions engine_options(const HardwareProfile& profile);

/// Timeline as a trace: a span of every operation of the step, and the live bytes when the host
/// reaches an operation that changes them (what it allocates included, what earlier ones freed
/// gone), then those between steps.
Trace predicted_trace(const Schedule& schedule, const Timeline& timeline);

}  // namespace shardscope

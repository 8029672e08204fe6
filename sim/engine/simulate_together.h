// Schedules of ranks that differ, played together: the stages of a pipeline.
#pragma once

#include <span>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Costs of all operations of schedules, those of one behind those of the one before, in the order
/// of the schedules. Each stands for as many equal ranks, on the cores of one host where the
/// profile says how these are shared.
StepCosts costs_together(std::span<const Schedule> schedules, const HardwareProfile& profile);

/// When the operations of the schedules' steps happen, each rank on a device of its own; subjects
/// are numbered as the costs. A collective or a transfer begins when all of these ranks that take
/// part have come to it. Throws Error where ranks wait for each other.
OperationMoments play_together(std::span<const Schedule> schedules, const StepCosts& costs);

/// The step of one rank of every stage; all simulations have the same window, to the end of the
/// last of them. Of schedules of the native runtime, which have one step.
std::vector<Simulation> simulate_together(std::span<const Schedule> schedules,
                                          const HardwareProfile& profile);

}  // namespace shardscope

// How a machine's host and device run a schedule.
#pragma once

#include <vector>

#include "core/schedule/samples.h"
#include "core/schedule/schedule.h"
#include "sim/engine/event_engine.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// How operations on a device of this profile slow each other.
SharingRules sharing_rules(const HardwareProfile& profile);

/// The clocks of a schedule's host and device: of the native runtime its own host, which replays
/// steps where it can; of others Python and the dispatcher.
DeviceClockOptions clock_options(const Schedule& schedule, const HardwareProfile& profile);

/// How far apart its ranks are, which meet where a host that computes waits for a collective. None
/// of other runtimes and hosts.
std::vector<StragglingSample> straggling_of(const Schedule& schedule,
                                            const HardwareProfile& profile);

/// `StepCosts::core_sharing` of so many devices, each of which stands for `ranks` equal ranks of
/// the job: between samples straight in the number of ranks. When all compute the factor is what
/// passing work on costs them then, where as many were measured, each a device. Else it is 1. None
/// for one device.
std::vector<double> core_sharing_of(const HardwareProfile& profile, std::size_t devices, int ranks);

/// All of what the schedule's steps cost on the machine.
StepCosts costs_of(const Schedule& schedule, const HardwareProfile& profile);

}  // namespace shardscope

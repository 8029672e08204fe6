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

/// All of what the schedule's steps cost on the machine.
StepCosts costs_of(const Schedule& schedule, const HardwareProfile& profile);

}  // namespace shardscope

// A host program played with host thread, device clock and caching allocator.
#pragma once

#include "sim/simulate.h"
#include "sim/timed_device.h"

namespace shardscope {

/// What a program's host and device take by this profile. An operator that issues nothing takes a
/// quarter of one that does: no memory, no launch (assumed).
DeviceClockOptions clock_options(const HardwareProfile& profile);

/// See `simulate`. Set-up has ended on the device before the first step begins.
Simulation simulate_program(const Schedule& schedule, const HardwareProfile& profile,
                            const AllocatorChoice& allocator);

}  // namespace shardscope

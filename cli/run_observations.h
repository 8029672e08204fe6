// What a run of ours, a run folder, says of each kernel and collective.
#pragma once

#include "sim/fit/observations.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/run_folder.h"

namespace shardscope {

/// Of every rank's trace but the first step, where there are several. A kernel beside which a
/// collective ran counts only where it never ran alone; a collective lasts from when its last rank
/// has come. Throws Error where the folder has no job or no profiled trace, or ran on another
/// device than the profile's.
RunObservations observe_run(const RunFolder& folder, const HardwareProfile& profile);

}  // namespace shardscope

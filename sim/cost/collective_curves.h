// Collectives of a profile as curves: what was measured beside what the cost model says.
#pragma once

#include <vector>

#include "sim/hardware/hardware_profile.h"
#include "traces/figure.h"

namespace shardscope {

/// A curve for each kind and number of ranks that was measured. Each size is predicted as if it had
/// not been: from the other samples, as `simulate` would; not at all where there are none.
std::vector<CollectiveCurve> collective_curves(const HardwareProfile& profile);

}  // namespace shardscope

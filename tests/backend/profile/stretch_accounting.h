// The accounting of a window by other means than traces/analysis.
#pragma once

#include "traces/analysis.h"

namespace shardscope {

/// The accounting of a window, stretch by stretch between any two moments at which something begins
/// or ends: what runs in a stretch decides whose it is.
Accounting account_by_stretches(const Trace& trace, TimeWindow window);

}  // namespace shardscope

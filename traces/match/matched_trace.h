// The matched part of an imported trace as a trace of the predicted schedule.
#pragma once

#include "traces/match/match.h"

namespace shardscope {

/// A span of every matched operation, named as the prediction names it, in the imported trace's
/// time: from here on the two traces can be compared operation by operation (traces/compare.h) and
/// drawn one above the other. A collective of which the trace has only the call is left out.
Trace matched_trace(const Trace& predicted, const ImportedTrace& profiled, const RankMatch& match);

}  // namespace shardscope

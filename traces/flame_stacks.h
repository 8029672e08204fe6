// Device time of a trace as stacks of a flame tree: by phase, module and operation.
#pragma once

#include <vector>

#include "traces/flame.h"
#include "traces/intervals.h"
#include "traces/predicted_buffers.h"
#include "traces/trace.h"

namespace shardscope {

/// Durations of the device's spans that start in the window, in nanoseconds: "forward;transformer;
/// h.0;mlp;c_fc;aten.addmm.default". What runs on several streams at once is added up, so that the
/// sum may be above the window's length. Spans without facts have their class for a phase.
std::vector<FlameStack> time_stacks(const Trace& trace, TimeWindow window);

/// The module of the operation and its name within it: as the trace says, else by its unit.
ModuleName module_of(const Trace& trace, const OperationFacts& facts);

/// The same of a buffer; `facts` are those of the operation that allocates it, null: not known.
ModuleName module_of(const Trace& trace, const PredictedBuffer& buffer,
                     const OperationFacts* facts);

}  // namespace shardscope

// An imported trace as our own kind, for pictures and run folders.
#pragma once

#include "traces/import/imported_trace.h"

namespace shardscope {

/// The activities of a rank's devices and its steps: streams become tracks by what they mostly do
/// (the first that computes is `compute`, others by their collectives and copies), collectives get
/// facts. Time 0 is the first activity's start. A trace without a device gives no spans.
Trace device_spans(const ImportedTrace& trace);

}  // namespace shardscope

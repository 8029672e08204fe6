// The trace of what an executor recorded.
#pragma once

#include <string>

#include "backend/executor/executor.h"
#include "traces/trace.h"

namespace shardscope {

/// The recorded steps of `executor`: a span for each operation, "ProfilerStep#N" on the host's
/// track around each step, live bytes where they change. Time 0 is when the executor was made;
/// `local_rank` is the rank's place on its host.
Trace profiled_trace(const Executor& executor, std::string device, int local_rank);

}  // namespace shardscope

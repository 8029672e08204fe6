// Which instruments a run has.
#pragma once

#include <memory>
#include <vector>

#include "backend/executor/executor.h"
#include "backend/profile/instrument.h"

namespace shardscope {

/// Everything that can measure this executor's windows here. An instrument that finds nothing to
/// measure says so in the trace. `kernel_threads`: so many run a kernel, where the host does.
std::vector<std::unique_ptr<Instrument>> make_instruments(Executor& executor, int kernel_threads);

}  // namespace shardscope

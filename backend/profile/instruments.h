// Which instruments a run has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/comm/communicator.h"
#include "backend/executor/executor.h"
#include "backend/executor/memory_marks.h"
#include "backend/profile/instrument.h"
#include "core/native/job.h"

namespace shardscope {

struct InstrumentPlace {
  Executor& executor;
  Communicator& world;            ///< that of the executor
  std::vector<MemoryMark> marks;  ///< of the device's memory, before the executor was made
  ProfileRecords records = ProfileRecords::kernels;  ///< of a GPU
  int kernel_threads = 1;                            ///< so many run a kernel, where the host does
  /// When a window closes, on all ranks: what to add to monotonic_ns() for the time all go by.
  std::function<std::int64_t()> clock_offset;
};

/// Everything that can measure this executor's windows here, in the order in which they are
/// started. Collective. An instrument that finds nothing to measure says so in the trace.
std::vector<std::unique_ptr<Instrument>> make_instruments(const InstrumentPlace& place);

}  // namespace shardscope

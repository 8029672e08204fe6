// The trace of what an executor recorded.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/executor/executor.h"
#include "traces/trace.h"

namespace shardscope {

/// What a trace says of where it was recorded.
struct RecordingPlace {
  std::string device;
  int local_rank = 0;                  ///< the rank's place on its host
  std::int64_t base_monotonic_ns = 0;  ///< time 0 of the trace, on monotonic_ns()'s clock
  std::int64_t base_wall_ns = 0;       ///< the same in Unix time
};

/// These steps of `executor`: "ProfilerStep#N" on the host's track around each, a span for each
/// operation and live bytes where they change.
Trace profiled_trace(const Executor& executor, std::span<const RecordedStep* const> steps,
                     const RecordingPlace& place);

/// The same of steps whose operations' times come later (`Instrument::times_replays`): annotations
/// alone.
Trace trace_of_replays(const Executor& executor, std::span<const RecordedStep* const> steps,
                       const RecordingPlace& place);
/// Adds live bytes to such a trace when the operations' spans are in it: where they change, when
/// the operation that changes them begins.
void add_memory_of_replays(const Executor& executor, Trace& trace);

/// The steps that `executor` recorded. Time 0 is when it was made.
Trace profiled_trace(const Executor& executor, std::string device, int local_rank);

}  // namespace shardscope

// What measures a run from inside is told here what the executor does.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Hears of a step's operations on the thread that runs or queues them: ranges, counters and the
/// correlation of launches hang on this. What it does costs time inside the step and must allocate
/// nothing there. Two threads may be inside begin() .. end() at once on the host, each of an
/// operation of its own. Whatever was begun is ended on the same thread, also where it failed; so
/// nothing here may throw.
class Probe {
 public:
  virtual ~Probe() = default;

  /// Around a step, on the thread that walks it; when `end_step` is called, the device has been
  /// waited for, unless the step failed.
  virtual void begin_step(std::int64_t /*step*/) {}
  virtual void end_step() {}

  /// Around an operation: its run where the memory is the host's, else its queueing. Of a step that
  /// is replayed as a graph nothing is heard but the step; while one is captured, all of it.
  virtual void begin(OperationId /*operation*/) {}
  virtual void end(OperationId /*operation*/) {}

  /// What is queued in between is kept as a graph and not run.
  virtual void begin_capture() {}
  virtual void end_capture() {}
};

}  // namespace shardscope

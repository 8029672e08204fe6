// What the processor did for each operation: cycles and instructions, or processor time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor/executor.h"
#include "backend/profile/instrument.h"
#include "backend/profile/processor_meter.h"
#include "core/schedule/schedule.h"
#include "traces/operation_spans.h"

namespace shardscope {

/// Who runs a schedule's operations on the host.
struct OperationThreads {
  std::vector<ProfiledThread> compute;  ///< who calls kernels, then the team that helps with them
  ProfiledThread communication;         ///< who runs collectives
};
/// Those of `executor`, whose kernels run on teams of `kernel_threads`. On the thread that trains,
/// between steps.
OperationThreads threads_of(Executor& executor, int kernel_threads);

inline constexpr std::int64_t cheap_reading_ns = 200;

/// Measures "cycles" and "instructions" (of the user's side) of every operation on the threads that
/// run it; where the machine does not let them be counted, "processor_ns", the threads' time on a
/// processor, and one note says what would help. What a reading costs is measured when a window
/// starts, and noted. Where it is more than `cheap_reading_ns`, as a system call is, an operation's
/// begin is the end of the one before it in its step and thread: what the executor does in between,
/// a microsecond or so, counts as the operation's.
class OperationCounters final : public Instrument, private Probe {
 public:
  /// `schedule` must outlive it. `call`: perf_event_open(2), or what stands for it.
  OperationCounters(const Schedule& schedule, OperationThreads threads,
                    OpenPerfEvent call = perf_event_call());

  Probe* probe() override { return this; }
  void start() override;
  void stop() override;
  void add_to(Trace& trace, const MeasuredWindow& window) override;

 private:
  struct MeasuredOperation {
    std::optional<ProcessorUse> begin, end;
  };
  struct MeasuredStep {
    std::int64_t step = 0;
    std::vector<MeasuredOperation> operations;  ///< by id
  };

  void begin_step(std::int64_t step) override;
  void end_step() override { lay_out_step(); }
  void begin(OperationId operation) override;
  void end(OperationId operation) override;

  /// The threads that are read together.
  struct Threads {
    ProcessorMeter meter;
    std::optional<ProcessorUse> last;  ///< at the end of an operation in this step
  };

  void lay_out_step();
  Threads& threads_of(OperationId operation);
  void add_step(Trace& trace, const OperationSpans& spans, const MeasuredStep& step) const;
  std::string how_measured() const;

  const Schedule& schedule_;
  OpenPerfEvent call_;
  Threads compute_, communication_;
  std::vector<MeasuredStep> steps_;  ///< of the window; the last one has not been run
  bool counted_ = false;             ///< cycles and instructions, not processor time
  std::string why_not_counted_;
  double share_not_counted_ = 0;
  std::int64_t reading_ns_ = 0;
};

}  // namespace shardscope

// The memory of a window: resident size over time, and who holds what at its end.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/executor/executor.h"
#include "backend/executor/memory_marks.h"
#include "backend/profile/instrument.h"
#include "backend/profile/process_memory.h"

namespace shardscope {

/// Adds the counters "resident_bytes" and "resident_shared_bytes", read between steps, and to
/// `RecordingFacts::memory` side by side what the schedule planned, what the system counts and what
/// the owners' own books say: of the host's memory by mapping, of a device's by what was taken
/// while each part of the run was made (context, communicator, kernels, arena) and since then.
class MemoryInstrument final : public Instrument, private Probe {
 public:
  /// `before`: marks of what was made before `executor`, which must outlive this.
  MemoryInstrument(const Executor& executor, std::vector<MemoryMark> before);

  Probe* probe() override { return this; }
  void start() override;
  void stop() override;
  void add_to(Trace& trace, const MeasuredWindow& window) override;

 private:
  struct Sample {
    std::int64_t time_ns = 0;
    ResidentSize size;
  };

  void end_step() override { take_sample(); }
  void take_sample();

  const Executor& executor_;
  std::vector<MemoryMark> marks_;
  ResidentSizeReader reader_;
  std::vector<Sample> samples_;  ///< of the window
  std::vector<MemoryHolder> holders_;
};

/// What each part took: the differences of marks, of the first all that was in use. Without marks
/// nothing. `now` is in use at the end; what was taken behind the last mark is of nobody by name.
std::vector<MemoryHolder> holders_of(const std::vector<MemoryMark>& marks, Bytes now);

}  // namespace shardscope

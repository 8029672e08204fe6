// Start and end of every operation of the last steps, in memory taken beforehand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Nanoseconds on a clock that only goes forward.
std::int64_t monotonic_ns();

/// When one operation was issued by the host, and when it ran.
struct OperationTimes {
  std::int64_t issued_ns = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct RecordedStep {
  std::int64_t step = 0;  ///< training step, from 1
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<OperationTimes> operations;  ///< by operation id
};

/// Keeps the last `capacity` steps. The two threads write different operations of the step that is
/// open.
class StepRecorder {
 public:
  StepRecorder(std::size_t operations, std::size_t capacity);
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Opens the next step in place of the oldest. Without capacity, and of a step that is not to be
  /// kept, times go to a place nobody reads.
  void begin(std::int64_t step, bool keep = true);
  void end();
  /// Times of the step that is open; before the first one, a place nobody reads.
  OperationTimes& at(OperationId operation) { return open_->operations[operation.value]; }
  std::int64_t begin_ns() const { return open_->begin_ns; }
  /// The step that ended last, kept or not.
  const RecordedStep& last() const { return *open_; }

  /// Finished steps, in order.
  std::vector<const RecordedStep*> steps() const;
  /// Monotonic and wall clock of the same moment, at construction.
  std::int64_t base_monotonic_ns() const { return base_monotonic_ns_; }
  std::int64_t base_wall_ns() const { return base_wall_ns_; }

 private:
  std::size_t place_of(std::size_t nth) const;

  std::vector<RecordedStep> kept_;
  RecordedStep not_kept_;
  RecordedStep* open_ = &not_kept_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::int64_t base_monotonic_ns_ = 0;
  std::int64_t base_wall_ns_ = 0;
};

}  // namespace shardscope

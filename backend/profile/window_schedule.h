// Which steps of a run are profiled.
#pragma once

#include <cstdint>
#include <optional>

#include "core/native/job.h"

namespace shardscope {

/// Steps of a training run in which everything is measured, both in it.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

/// The windows of a run: those of the job, and those that somebody asks for. One is open at a time:
/// what would begin inside of another does not. All ranks hear the same and so have the same
/// windows.
class WindowSchedule {
 public:
  WindowSchedule(const ProfileWindows& job, std::int64_t steps_of_run);

  /// A window of `steps` steps that begins with the next one, cut at the end of the run; none where
  /// a window is open then, or no step is left. `next`: the step that comes next.
  std::optional<StepRange> ask(std::int64_t next, std::int64_t steps);

  /// The window that `step` lies in; to be asked of one step after the other.
  std::optional<StepRange> at(std::int64_t step);

 private:
  bool begins_at(std::int64_t step) const;

  ProfileWindows job_;
  std::int64_t steps_of_run_ = 0;
  std::optional<StepRange> open_;
};

}  // namespace shardscope

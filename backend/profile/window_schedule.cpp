#include "backend/profile/window_schedule.h"

#include <algorithm>

namespace shardscope {

WindowSchedule::WindowSchedule(const ProfileWindows& job, std::int64_t steps_of_run)
    : job_(job), steps_of_run_(steps_of_run) {}

std::optional<StepRange> WindowSchedule::ask(std::int64_t next, std::int64_t steps) {
  if (next > steps_of_run_ || at(next)) return std::nullopt;
  open_ = StepRange{.first = next, .last = std::min(next + steps - 1, steps_of_run_)};
  return open_;
}

std::optional<StepRange> WindowSchedule::at(std::int64_t step) {
  if (open_ && step > open_->last) open_.reset();
  if (!open_ && begins_at(step))
    open_ = StepRange{.first = step, .last = std::min(step + job_.steps - 1, steps_of_run_)};
  return open_;
}

bool WindowSchedule::begins_at(std::int64_t step) const {
  if (job_.start == 0 || step < job_.start || step > steps_of_run_) return false;
  return step == job_.start || (job_.every > 0 && (step - job_.start) % job_.every == 0);
}

}  // namespace shardscope

#include "backend/executor/step_recorder.h"

#include <algorithm>
#include <chrono>

namespace shardscope {
namespace {

constexpr std::size_t first_steps = 2;

template <class Clock>
std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int64_t monotonic_ns() { return now_ns<std::chrono::steady_clock>(); }

StepRecorder::StepRecorder(std::size_t operations, std::size_t capacity)
    : kept_(capacity == 0 ? 0 : std::max(capacity, first_steps + 1)),
      base_monotonic_ns_(monotonic_ns()),
      base_wall_ns_(now_ns<std::chrono::system_clock>()) {
  for (RecordedStep& step : kept_) step.operations.resize(operations);
  not_kept_.operations.resize(operations);
}

std::size_t StepRecorder::place_of(std::size_t nth) const {
  if (nth < kept_.size()) return nth;
  return first_steps + (nth - first_steps) % (kept_.size() - first_steps);
}

void StepRecorder::begin(std::int64_t step, bool keep) {
  open_ = keep && !kept_.empty() ? &kept_[place_of(begun_++)] : &not_kept_;
  open_->step = step;
  open_->begin_ns = monotonic_ns();
}

void StepRecorder::end() {
  open_->end_ns = monotonic_ns();
  if (open_ != &not_kept_) ended_ = begun_;
}

std::vector<const RecordedStep*> StepRecorder::steps() const {
  std::vector<const RecordedStep*> steps;
  for (std::size_t i = 0; i < std::min(kept_.size(), ended_); ++i) {
    // A step that failed half-way has taken the place of an older one.
    if (begun_ == ended_ || &kept_[i] != open_) steps.push_back(&kept_[i]);
  }
  std::ranges::sort(steps, {}, &RecordedStep::step);
  return steps;
}

}  // namespace shardscope

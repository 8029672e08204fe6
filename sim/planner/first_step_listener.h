// Gives away the first step of a recording while the second begins.
#pragma once

#include <functional>
#include <utility>

#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "core/schedule/schedule.h"

namespace shardscope::planner {

/// What the first step holds, the whole run holds, too: where that does not fit, `play` may throw,
/// and nothing more is recorded. It is called once, of runs of several steps.
class FirstStepListener final : public eager::ProgramListener {
 public:
  explicit FirstStepListener(std::function<void(Schedule first)> play) : play_(std::move(play)) {}

  void on_program(const Schedule& so_far) override {
    if (is_done_ || so_far.steps.size() < 2) return;
    is_done_ = true;
    Schedule first = so_far;
    first.steps.resize(1);
    play_(std::move(first));
  }

 private:
  std::function<void(Schedule first)> play_;
  bool is_done_ = false;
};

}  // namespace shardscope::planner

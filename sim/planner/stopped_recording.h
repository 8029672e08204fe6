// Ends a recording once a stop is asked for.
#pragma once

#include <stop_token>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"

namespace shardscope::planner {

/// Throws Error (ExitCode::interrupted) once a stop is asked for.
inline void refuse_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error({.what = "stopped", .code = ExitCode::interrupted});
}

/// Throws as refuse_if_stopped does, out of the recording. `other`, if any, is told all, too.
class StoppedRecording final : public eager::ProgramListener {
 public:
  explicit StoppedRecording(std::stop_token stop, eager::ProgramListener* other = nullptr)
      : stop_(std::move(stop)), other_(other) {}
  void on_program(const Schedule& so_far) override {
    refuse_if_stopped(stop_);
    if (other_ != nullptr) other_->on_program(so_far);
  }

 private:
  std::stop_token stop_;
  eager::ProgramListener* other_;
};

}  // namespace shardscope::planner

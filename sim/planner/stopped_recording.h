// Ends a recording once a stop is asked for.
#pragma once

#include <stop_token>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"

namespace shardscope::planner {

/// By throwing Error (ExitCode::interrupted).
class StoppedRecording final : public eager::ProgramListener {
 public:
  explicit StoppedRecording(std::stop_token stop) : stop_(std::move(stop)) {}
  void on_program(const Schedule&) override {
    if (stop_.stop_requested()) throw Error({.what = "stopped", .code = ExitCode::interrupted});
  }

 private:
  std::stop_token stop_;
};

}  // namespace shardscope::planner

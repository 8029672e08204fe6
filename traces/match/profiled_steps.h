// The training steps of an imported trace, however it marks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/intervals.h"

namespace shardscope {

/// What steps are cut by.
enum class StepMarks : std::uint8_t {
  profiler_steps,   ///< "ProfilerStep#N"
  optimizer_steps,  ///< from the end of one "Optimizer.step#..." to the end of the next
  none,             ///< the whole trace is one
};
std::string_view name_of(StepMarks marks);

struct ProfiledStep {
  std::string name;                    ///< "ProfilerStep#2", "step 1"
  std::optional<std::int64_t> number;  ///< the profiler's, which counts from 0
  TimeWindow window;                   ///< of the host
};

struct ProfiledSteps {
  StepMarks marks = StepMarks::none;
  std::vector<ProfiledStep> steps;  ///< by start

  /// Index of the step in which the host is at `time`; none between and outside of them.
  std::optional<std::size_t> at(Duration time) const;
};

/// A step that the trace begins or ends in the middle of is one too.
ProfiledSteps profiled_steps(const ImportedTrace& trace);

}  // namespace shardscope

#include "traces/match/profiled_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/import/host_activity.h"

namespace shardscope {
namespace {

constexpr std::string_view optimizer_prefix = "Optimizer.step#";

void sort_by_start(std::vector<ProfiledStep>& steps) {
  std::stable_sort(steps.begin(), steps.end(), [](const ProfiledStep& a, const ProfiledStep& b) {
    return a.window.begin < b.window.begin;
  });
}

std::vector<ProfiledStep> marked_steps(const ImportedTrace& trace) {
  std::vector<ProfiledStep> steps;
  for (const ProfilerStep& step : profiler_steps(trace)) {
    ProfiledStep& added = steps.emplace_back(
        ProfiledStep{std::string(trace.name_of(step.event)), std::nullopt, step.window});
    if (step.number >= 0) added.number = step.number;
  }
  sort_by_start(steps);
  return steps;
}

TimeWindow host_window(const ImportedTrace& trace) {
  return host_figures(trace).window.value_or(TimeWindow{});
}

std::vector<ProfiledStep> steps_of_optimizer(const ImportedTrace& trace) {
  std::vector<Duration> ends;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const bool is_step = trace.events.phase[i] == 'X' &&
                         trace.track_of(i).kind == TrackKind::thread &&
                         trace.name_of(i).starts_with(optimizer_prefix);
    if (is_step) ends.push_back({trace.events.end_ns(i)});
  }
  std::sort(ends.begin(), ends.end());
  std::vector<ProfiledStep> steps;
  Duration begin = host_window(trace).begin;
  for (const Duration end : ends) {
    steps.push_back({fmt::format("step {}", steps.size() + 1), std::nullopt, {begin, end}});
    begin = end;
  }
  return steps;
}

}  // namespace

std::string_view name_of(StepMarks marks) {
  switch (marks) {
    case StepMarks::profiler_steps:
      return "profiler_steps";
    case StepMarks::optimizer_steps:
      return "optimizer_steps";
    case StepMarks::none:
      break;
  }
  return "none";
}

std::optional<std::size_t> ProfiledSteps::at(Duration time) const {
  const auto behind =
      std::upper_bound(steps.begin(), steps.end(), time,
                       [](Duration t, const ProfiledStep& step) { return t < step.window.begin; });
  if (behind == steps.begin()) return std::nullopt;
  const auto step = behind - 1;
  if (time >= step->window.end) return std::nullopt;
  return static_cast<std::size_t>(step - steps.begin());
}

ProfiledSteps profiled_steps(const ImportedTrace& trace) {
  ProfiledSteps result{.marks = StepMarks::profiler_steps, .steps = marked_steps(trace)};
  if (!result.steps.empty()) return result;
  result = {.marks = StepMarks::optimizer_steps, .steps = steps_of_optimizer(trace)};
  if (!result.steps.empty()) return result;
  return {.marks = StepMarks::none,
          .steps = {{.name = "whole trace", .number = {}, .window = host_window(trace)}}};
}

}  // namespace shardscope

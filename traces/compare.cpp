#include "traces/compare.h"
#include "core/base/median.h"

#include <algorithm>
#include <map>

namespace shardscope {
namespace {

/// One operation in one step: its device spans joined.
struct Execution {
  Duration start;
  Duration duration;
};

struct OperationRuns {
  std::vector<Duration> starts;  ///< since the step's begin, one per step
  std::vector<Duration> durations;
};

/// Every operation's executions, by id.
std::map<OperationId, OperationRuns> runs_by_operation(const Trace& trace,
                                                       const std::vector<StepWindow>& steps) {
  std::map<std::pair<OperationId, int>, Execution> executions;
  for (const Span& span : trace.spans) {
    if (!span.operation || !is_on_device(trace, span)) continue;
    const auto [at, is_new] = executions.try_emplace(
        {span.operation, span.step}, Execution{.start = span.start, .duration = span.duration});
    if (is_new) continue;
    at->second.start = std::min(at->second.start, span.start);
    at->second.duration += span.duration;
  }
  std::map<int, Duration> begins;
  for (const StepWindow& step : steps) begins[step.step] = step.window.begin;
  std::map<OperationId, OperationRuns> runs;
  for (const auto& [key, execution] : executions) {
    const auto begin = begins.find(key.second);
    if (begin == begins.end()) continue;
    runs[key.first].starts.push_back(execution.start - begin->second);
    runs[key.first].durations.push_back(execution.duration);
  }
  return runs;
}

/// A trace and what of it is compared.
struct Side {
  explicit Side(const Trace& source)
      : trace(source),
        steps(step_windows(source)),
        steady(steps[steady_step(steps)]),
        runs(runs_by_operation(source, steps)),
        facts(source) {}

  const Trace& trace;
  std::vector<StepWindow> steps;
  StepWindow steady;
  std::map<OperationId, OperationRuns> runs;
  FactsTable facts;
};

OperationComparison compare_operation(OperationId id, const Side& predicted, const Side& profiled) {
  const OperationRuns& predicted_runs = predicted.runs.at(id);
  const OperationRuns& profiled_runs = profiled.runs.at(id);
  OperationComparison result{.id = id};
  result.duration = {{lower_median(predicted_runs.durations)},
                     {lower_median(profiled_runs.durations)}};
  result.start = {{lower_median(predicted_runs.starts)}, {lower_median(profiled_runs.starts)}};
  const OperationFacts* of_profiled = profiled.facts.find(id);
  if (of_profiled != nullptr) result.bytes.profiled.value = of_profiled->bytes;
  const OperationFacts* of_predicted = predicted.facts.find(id);
  if (of_predicted != nullptr) result.bytes.predicted.value = of_predicted->bytes;
  if (const OperationFacts* facts = of_predicted != nullptr ? of_predicted : of_profiled) {
    result.name = facts->name;
    result.kind = facts->kind;
    result.phase = facts->phase;
    result.unit = facts->unit;
  }
  return result;
}

void compare_operations(const Side& predicted, const Side& profiled, Comparison& result) {
  for (const auto& [id, runs] : predicted.runs) {
    if (profiled.runs.contains(id)) {
      result.operations.push_back(compare_operation(id, predicted, profiled));
    } else {
      result.only_predicted.push_back(id);
    }
  }
  for (const auto& [id, runs] : profiled.runs) {
    if (!predicted.runs.contains(id)) result.only_profiled.push_back(id);
  }
}

}  // namespace

Comparison compare(Predicted<const Trace&> predicted_trace, Profiled<const Trace&> profiled_trace) {
  const Side predicted(predicted_trace.value);
  const Side profiled(profiled_trace.value);
  const TimeWindow predicted_window = predicted.steady.window;
  const TimeWindow profiled_window = profiled.steady.window;
  Comparison result;
  result.step = {{predicted.steady.step}, {profiled.steady.step}};
  result.step_time = {{predicted_window.length()}, {profiled_window.length()}};
  result.step_time_error_share = error_share(result.step_time);
  result.time = {{account(predicted.trace, predicted_window)},
                 {account(profiled.trace, profiled_window)}};
  result.memory = {{memory_peak(predicted.trace, predicted_window)},
                   {memory_peak(profiled.trace, profiled_window)}};
  const MemoryPeak& predicted_peak = result.memory.predicted.value;
  const MemoryPeak& profiled_peak = result.memory.profiled.value;
  result.peak_error = predicted_peak.total - profiled_peak.total;
  result.peak_error_share =
      error_share(SideBySide<Bytes>{{predicted_peak.total}, {profiled_peak.total}});
  for (const MemoryCategory category : memory_categories) {
    result.peak_error_by_category[category] =
        predicted_peak.at_peak[category] - profiled_peak.at_peak[category];
  }
  compare_operations(predicted, profiled, result);
  return result;
}

}  // namespace shardscope

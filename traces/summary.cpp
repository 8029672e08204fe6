#include "traces/summary.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardscope {
namespace {

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

MemorySummary summarize_memory(const Trace& trace, const FactsTable& facts, const RunFacts& run,
                               TimeWindow window) {
  const MemoryPeak peak = memory_peak(trace, window);
  const OperationFacts* operation = facts.find(peak.operation);
  MemorySummary result;
  result.arena = run.arena.count > 0 ? run.arena : trace.arena;
  result.outside = run.outside;
  result.pss = run.pss;
  result.peak_allocated = peak.total;
  // An arena that is laid out ahead frees nothing late: active is what is allocated, reserved is
  // the arena.
  result.peak_active = peak.total;
  result.peak_reserved = std::max(peak.total, result.arena);
  result.at_operation = operation != nullptr ? operation->name : "";
  result.at_peak = peak.at_peak;
  result.maximum = peak.maximum;
  return result;
}

StepSummary summarize_step(const Trace& trace, std::string label, int step, TimeWindow window,
                           MemorySummary memory) {
  return {.label = std::move(label),
          .step = step,
          .time = account(trace, window),
          .memory = std::move(memory)};
}

struct Steps {
  std::vector<StepSummary> all;
  TimeWindow steady;
};

Steps steps_of_facts(const Trace& trace, const RunFacts& facts) {
  Steps result{.steady = facts.steps.back().window};
  for (const StepFacts& step : facts.steps)
    result.all.push_back(summarize_step(trace, step.label, static_cast<int>(result.all.size()) + 1,
                                        step.window, step.memory));
  return result;
}

/// Steps 1 and 2 where a longer trace has them, then the steady one.
Steps steps_of_trace(const Trace& trace, const FactsTable& operations, const RunFacts& facts) {
  const std::vector<StepWindow> steps = step_windows(trace);
  const StepWindow& steady = steps[steady_step(steps)];
  Steps result{.steady = steady.window};
  const auto add = [&](std::string label, const StepWindow& step) {
    result.all.push_back(summarize_step(trace, std::move(label), step.step, step.window,
                                        summarize_memory(trace, operations, facts, step.window)));
  };
  for (const StepWindow& step : steps) {
    if (steps.size() > 1 && step.step == 1) add("1", step);
    if (steps.size() > 1 && step.step == 2) add("2", step);
  }
  add("steady", steady);
  return result;
}

StepSummary first_step_of(StepSummary steady, Duration overhead) {
  steady.label = "1";
  steady.step = 1;
  steady.time.span += overhead;
  steady.time.idle += overhead;
  return steady;
}

bool fits(const std::vector<StepSummary>& steps, const RunFacts& facts) {
  if (facts.out_of_memory) return false;
  return std::none_of(steps.begin(), steps.end(), [&](const StepSummary& step) {
    return facts.device_memory && step.memory.peak_reserved + facts.outside > *facts.device_memory;
  });
}

double per_second(double amount, Duration time) {
  return time.ns > 0 ? amount / time.seconds() : 0;
}

/// A run that ends early has no step that repeats.
Summary without_times(Summary summary) {
  summary.step_time = summary.step_time_low = summary.step_time_high = {};
  summary.tokens_per_s = summary.tokens_per_s_per_device = 0;
  summary.mfu_share.reset();
  summary.time = {};
  return summary;
}

}  // namespace

Summary summarize(const Trace& trace, const RunFacts& facts) {
  const FactsTable operations(trace);
  Steps steps =
      facts.steps.empty() ? steps_of_trace(trace, operations, facts) : steps_of_facts(trace, facts);
  const TimeWindow steady = steps.steady;
  if (facts.first_step_overhead && steps.all.size() == 1)
    steps.all.insert(steps.all.begin(),
                     first_step_of(steps.all.back(), *facts.first_step_overhead));
  Summary result;
  result.kind = trace.kind;
  result.strategy = facts.strategy;
  result.runtime = facts.runtime;
  result.world = trace.world;
  result.precision = facts.precision;
  result.device_memory = facts.device_memory;
  result.assumed = facts.assumed;
  result.step_time = steady.length();
  result.step_time_low = scaled(steady.length(), facts.low_factor);
  result.step_time_high = scaled(steady.length(), facts.high_factor);
  result.tokens_per_s = per_second(static_cast<double>(facts.tokens_per_step), steady.length());
  result.tokens_per_s_per_device = result.tokens_per_s / std::max(1, trace.world);
  if (facts.model_flops.count > 0 && facts.peak.flops_per_s > 0 && steady.length().ns > 0) {
    const double achieved =
        per_second(static_cast<double>(facts.model_flops.count), steady.length());
    result.mfu_share = achieved / facts.peak.flops_per_s;
    result.mfu_formula = facts.mfu_formula;
  }
  result.time = steps.all.back().time;
  result.memory = steps.all.back().memory;
  result.steps = std::move(steps.all);
  result.fits = fits(result.steps, facts);
  result.collectives = facts.collectives;
  result.hooks = facts.hooks;
  result.outside = facts.outside_items;
  result.allowances = facts.allowances;
  result.out_of_memory = facts.out_of_memory;
  if (facts.out_of_memory) return without_times(std::move(result));
  result.by_unit = account_by_unit(trace, steady);
  return result;
}

}  // namespace shardscope

#include "traces/summary.h"

#include <algorithm>
#include <cmath>

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

/// Steps 1 and 2 where a longer trace has them, then the steady one.
std::vector<std::pair<std::string, StepWindow>> labelled_steps(
    const std::vector<StepWindow>& steps) {
  std::vector<std::pair<std::string, StepWindow>> result;
  for (const StepWindow& step : steps) {
    if (steps.size() > 1 && step.step == 1) result.emplace_back("1", step);
    if (steps.size() > 1 && step.step == 2) result.emplace_back("2", step);
  }
  result.emplace_back("steady", steps[steady_step(steps)]);
  return result;
}

double per_second(double amount, Duration time) {
  return time.ns > 0 ? amount / time.seconds() : 0;
}

}  // namespace

Summary summarize(const Trace& trace, const RunFacts& facts) {
  const FactsTable operations(trace);
  const std::vector<StepWindow> steps = step_windows(trace);
  const TimeWindow steady = steps[steady_step(steps)].window;
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
  result.time = account(trace, steady);
  result.memory = summarize_memory(trace, operations, facts, steady);
  for (const auto& [label, step] : labelled_steps(steps)) {
    result.steps.push_back({.label = label,
                            .step = step.step,
                            .time = account(trace, step.window),
                            .memory = summarize_memory(trace, operations, facts, step.window)});
    const Bytes needed = result.steps.back().memory.peak_reserved + facts.outside;
    if (facts.device_memory && needed > *facts.device_memory) result.fits = false;
  }
  result.by_unit = account_by_unit(trace, steady);
  return result;
}

}  // namespace shardscope

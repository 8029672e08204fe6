#include "traces/differences.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>

#include "core/base/median.h"
#include "traces/difference_causes.h"
#include "traces/operation_runs.h"

namespace shardscope {
namespace {

constexpr std::size_t shown = 5;

RankTime time_of(const Trace& trace) {
  RankTime result{.rank = trace.rank, .time = {}, .waits = peer_wait_totals(trace)};
  for (const StepWindow& step : step_windows(trace)) {
    const Accounting time = account(trace, step.window);
    result.time.span += time.span;
    result.time.compute += time.compute;
    result.time.exposed_communication += time.exposed_communication;
    result.time.exposed_copy += time.exposed_copy;
    result.time.idle += time.idle;
    result.time.communication += time.communication;
    result.time.overlap += time.overlap;
  }
  return result;
}

CategoryBytes peak_of(const Trace& trace) {
  const std::vector<StepWindow> steps = step_windows(trace);
  if (steps.empty()) return {};
  return memory_peak(trace, {steps.front().window.begin, steps.back().window.end}).at_peak;
}

Accounting steady_time_of(const Trace& trace) {
  const std::vector<StepWindow> steps = step_windows(trace);
  return steps.empty() ? Accounting{} : account(trace, steps[steady_step(steps)].window);
}

/// The median over steps of the mean over ranks: first steps, in which fresh memory makes ranks
/// wait for each other, count as any other.
Duration typical_exposed(std::span<const Trace> ranks) {
  std::map<int, std::vector<Duration>> by_step;
  for (const Trace& rank : ranks)
    for (const StepWindow& step : step_windows(rank))
      by_step[step.step].push_back(account(rank, step.window).exposed_communication);
  std::vector<Duration> means;
  for (const auto& [step, exposed] : by_step) {
    Duration sum;
    for (const Duration one : exposed) sum += one;
    means.push_back({sum.ns / std::ssize(exposed)});
  }
  return means.empty() ? Duration{} : median(means);
}

OperationDifference difference_of(const OperationRun& plan, const OperationRun& real,
                                  const OperationFacts* predicted, const OperationFacts* profiled) {
  OperationDifference difference{.operation = real.operation,
                                 .name = {},
                                 .unit = {},
                                 .duration = {{plan.duration}, {real.duration}},
                                 .gap = {{plan.gap}, {real.gap}},
                                 .bytes = {},
                                 .cause = {}};
  if (predicted != nullptr) difference.bytes.predicted.value = predicted->bytes;
  if (profiled == nullptr) return difference;
  difference.bytes.profiled.value = profiled->bytes;
  difference.name = profiled->name;
  difference.kind = profiled->kind;
  difference.phase = profiled->phase;
  difference.unit = profiled->unit;
  return difference;
}

using Runs = std::map<OperationId, OperationRun>;

void add_operations(const Trace& predicted, const Trace& profiled, const Runs& plans,
                    const Runs& reals, Differences& result) {
  const FactsTable predicted_facts(predicted), profiled_facts(profiled);
  for (const auto& [operation, real] : reals) {
    const auto plan = plans.find(operation);
    if (plan == plans.end()) continue;
    result.operations.push_back(difference_of(plan->second, real, predicted_facts.find(operation),
                                              profiled_facts.find(operation)));
  }
  result.only_predicted = plans.size() - result.operations.size();
  result.only_profiled = reals.size() - result.operations.size();
}

void add_largest(const DifferenceEvidence& evidence, const Runs& plans, const Runs& reals,
                 Differences& result) {
  std::vector<OperationDifference> ranked = result.operations;
  std::ranges::stable_sort(ranked, std::greater<>(),
                           [](const auto& one) { return std::abs(one.difference().ns); });
  for (OperationDifference& one : ranked) {
    if (result.largest.size() == shown || one.difference() == Duration{}) break;
    one.cause = cause_of(one, plans.at(one.operation), reals.at(one.operation), evidence);
    result.largest.push_back(std::move(one));
  }
}

}  // namespace

std::string_view name_of(DifferenceCause cause) {
  switch (cause) {
    case DifferenceCause::unknown:
      return "unknown";
    case DifferenceCause::size:
      return "size";
    case DifferenceCause::late_peer:
      return "late_peer";
    case DifferenceCause::queued:
      return "queued";
    case DifferenceCause::host:
      return "host";
    case DifferenceCause::contention:
      return "contention";
    case DifferenceCause::processor:
      return "processor";
    case DifferenceCause::bandwidth:
      return "bandwidth";
    case DifferenceCause::arithmetic:
      return "arithmetic";
  }
  return "unknown";
}

Differences find_differences(const Trace* predicted, std::span<const Trace> profiled) {
  const Trace& own = profiled.front();
  Differences result;
  for (const StepWindow& step : step_windows(own)) result.steps.push_back(step.step);
  for (const Trace& rank : profiled) result.ranks.push_back(time_of(rank));
  result.recording = own.recording;
  result.at_peak = peak_of(own);
  result.step_time.profiled.value = steady_time_of(own).span;
  result.exposed_communication.profiled.value = typical_exposed(profiled);
  if (predicted == nullptr) return result;
  result.has_prediction = true;
  const Accounting steady = steady_time_of(*predicted);
  result.step_time.predicted.value = steady.span;
  result.exposed_communication.predicted.value = steady.exposed_communication;
  const Runs plans = typical_runs(*predicted), reals = typical_runs(own);
  add_operations(*predicted, own, plans, reals, result);
  std::vector<const Trace*> ranks;
  for (const Trace& rank : profiled) ranks.push_back(&rank);
  add_largest(DifferenceEvidence(*predicted, std::move(ranks)), plans, reals, result);
  return result;
}

}  // namespace shardscope

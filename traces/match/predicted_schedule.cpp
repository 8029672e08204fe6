#include "traces/match/predicted_schedule.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "traces/analysis.h"

namespace shardscope {
namespace {

PredictedStep& step_numbered(std::vector<PredictedStep>& steps, std::int32_t number) {
  const auto found =
      std::lower_bound(steps.begin(), steps.end(), number,
                       [](const PredictedStep& step, std::int32_t n) { return step.number < n; });
  if (found != steps.end() && found->number == number) return *found;
  return *steps.insert(found, {.number = number});
}

void sort_by_issue(std::vector<PredictedOperation>& operations) {
  std::stable_sort(operations.begin(), operations.end(),
                   [](const PredictedOperation& a, const PredictedOperation& b) {
                     return a.facts->operation < b.facts->operation;
                   });
}

/// A unit has a collective, or a name: what belongs to no unit has neither.
bool shows_unit(const OperationFacts& facts) {
  return has_unit(facts) && (!facts.unit.empty() || is_collective(facts.kind));
}

std::vector<std::string> units_of(const Trace& trace) {
  std::set<std::string_view> shown;
  for (const OperationFacts& facts : trace.facts)
    if (shows_unit(facts)) shown.insert(facts.unit);
  std::vector<std::string> units;
  for (const OperationFacts& facts : trace.facts) {
    const bool is_new = std::find(units.begin(), units.end(), facts.unit) == units.end();
    if (has_unit(facts) && is_new && shown.contains(facts.unit)) units.push_back(facts.unit);
  }
  return units;
}

}  // namespace

bool has_unit(const OperationFacts& facts) {
  return facts.phase == Phase::forward || facts.phase == Phase::backward;
}

PredictedSchedule predicted_schedule(const Trace& trace) {
  PredictedSchedule result{.steps = {}, .units = units_of(trace)};
  const FactsTable table(trace);
  for (const Span& span : trace.spans) {
    if (span.step <= 0 || !is_on_device(trace, span)) continue;
    const OperationFacts* facts = table.find(span.operation);
    if (facts == nullptr) continue;
    PredictedStep& step = step_numbered(result.steps, span.step);
    auto& operations = is_collective(facts->kind) ? step.collectives : step.operators;
    operations.push_back({facts, span.duration});
  }
  for (PredictedStep& step : result.steps) {
    sort_by_issue(step.collectives);
    sort_by_issue(step.operators);
  }
  for (const StepWindow& window : step_windows(trace))
    for (PredictedStep& step : result.steps)
      if (step.number == window.step) step.window = window.window;
  return result;
}

}  // namespace shardscope

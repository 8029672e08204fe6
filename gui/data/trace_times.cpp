#include "gui/data/trace_times.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "traces/analysis.h"

namespace shardscope::gui {
namespace {

std::vector<std::pair<Landmark, double>> landmarks_of(const Trace& trace, TimeWindow step) {
  const FactsTable facts(trace);
  // By operation first: facts are fewer than spans, and their units are text.
  std::vector<std::optional<Duration>> begins(trace.facts.size());
  for (const Span& span : trace.spans) {
    if (span.start < step.begin || span.start >= step.end) continue;
    if (span.span_class != SpanClass::compute) continue;
    const OperationFacts* fact = facts.find(span.operation);
    if (fact == nullptr) continue;
    auto& begin = begins[static_cast<std::size_t>(fact - trace.facts.data())];
    begin = std::min(begin.value_or(span.start), span.start);
  }
  std::map<Landmark, double> first;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (!begins[i]) continue;
    const OperationFacts& fact = trace.facts[i];
    const auto time = static_cast<double>(begins[i]->ns);
    const auto [place, is_new] =
        first.try_emplace(Landmark{fact.unit, fact.phase, fact.micro_batch}, time);
    if (!is_new) place->second = std::min(place->second, time);
  }
  return {first.begin(), first.end()};
}

/// Traces are shared by scenarios that are made of one another, and so are their times.
class KnownTimes {
 public:
  std::shared_ptr<const TraceTimes> of(const std::shared_ptr<const Trace>& trace, StepChoice step) {
    if (auto known = find(trace, step)) return known;
    // Not under the lock: others need not wait. Who measures the same meanwhile finds the same.
    auto measured = std::make_shared<const TraceTimes>(measure_times(*trace, step));
    const std::lock_guard lock(mutex_);
    std::erase_if(times_, [](const auto& entry) { return entry.second.trace.expired(); });
    times_[{trace.get(), step}] = {.trace = trace, .times = measured};
    return measured;
  }

 private:
  struct Entry {
    std::weak_ptr<const Trace> trace;  ///< gone: another one may be where it was
    std::shared_ptr<const TraceTimes> times;
  };

  std::shared_ptr<const TraceTimes> find(const std::shared_ptr<const Trace>& trace,
                                         StepChoice step) {
    const std::lock_guard lock(mutex_);
    const auto entry = times_.find({trace.get(), step});
    if (entry == times_.end() || entry->second.trace.lock() != trace) return nullptr;
    return entry->second.times;
  }

  std::mutex mutex_;
  std::map<std::pair<const Trace*, StepChoice>, Entry> times_;
};

}  // namespace

TimeWindow window_of(TraceKind kind, const std::vector<StepWindow>& steps, StepChoice choice) {
  const auto chosen = std::find_if(steps.begin(), steps.end(), [&](const StepWindow& step) {
    return choice && step.step == *choice;
  });
  if (chosen != steps.end()) return chosen->window;
  const bool repeats = kind == TraceKind::predicted && choice && *choice > steps.back().step;
  return repeats ? steps.back().window : steps[steady_step(steps)].window;
}

TraceTimes measure_times(const Trace& trace, StepChoice step) {
  TraceTimes times{
      .device = device_window(trace), .steps = step_windows(trace), .step = {}, .landmarks = {}};
  times.step = window_of(trace.kind, times.steps, step);
  times.landmarks = landmarks_of(trace, times.step);
  return times;
}

std::shared_ptr<const TraceTimes> times_of(const std::shared_ptr<const Trace>& trace,
                                           StepChoice step) {
  static KnownTimes known;
  return known.of(trace, step);
}

void measure_times(const Scenario& scenario, StepChoice step) {
  for (const auto& side : {std::cref(scenario.predicted), std::cref(scenario.profiled)})
    if (side.get())
      for (const auto& trace : side.get()->ranks) times_of(trace, step);
}

std::vector<KnownStep> known_steps(std::span<const ScenarioPointer> scenarios) {
  std::map<int, KnownStep> known;
  for (const ScenarioPointer& scenario : scenarios) {
    if (!scenario) continue;
    for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
      const Side* side = scenario->side(kind);
      if (side == nullptr || !side->has_trace()) continue;
      const auto times = times_of(side->ranks.front());
      for (const StepWindow& step : times->steps) {
        if (step.step == 0) continue;  // the trace does not say
        KnownStep& entry = known[step.step];
        entry.number = step.step;
        const bool is_predicted = kind == SideKind::predicted;
        (is_predicted ? entry.is_predicted : entry.is_profiled) = true;
        entry.is_steady |= is_predicted && times->steps.size() > 1 && step == times->steps.back();
      }
    }
  }
  std::vector<KnownStep> result;
  for (const auto& [number, step] : known) result.push_back(step);
  return result;
}

}  // namespace shardscope::gui

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
  std::shared_ptr<const TraceTimes> of(const std::shared_ptr<const Trace>& trace) {
    if (auto known = find(trace)) return known;
    // Not under the lock: others need not wait. Who measures the same meanwhile finds the same.
    auto measured = std::make_shared<const TraceTimes>(measure_times(*trace));
    const std::lock_guard lock(mutex_);
    std::erase_if(times_, [](const auto& entry) { return entry.second.trace.expired(); });
    times_[trace.get()] = {.trace = trace, .times = measured};
    return measured;
  }

 private:
  struct Entry {
    std::weak_ptr<const Trace> trace;  ///< gone: another one may be where it was
    std::shared_ptr<const TraceTimes> times;
  };

  std::shared_ptr<const TraceTimes> find(const std::shared_ptr<const Trace>& trace) {
    const std::lock_guard lock(mutex_);
    const auto entry = times_.find(trace.get());
    if (entry == times_.end() || entry->second.trace.lock() != trace) return nullptr;
    return entry->second.times;
  }

  std::mutex mutex_;
  std::map<const Trace*, Entry> times_;
};

}  // namespace

TraceTimes measure_times(const Trace& trace) {
  TraceTimes times{.device = device_window(trace), .step = shown_step(trace), .landmarks = {}};
  times.landmarks = landmarks_of(trace, times.step);
  return times;
}

std::shared_ptr<const TraceTimes> times_of(const std::shared_ptr<const Trace>& trace) {
  static KnownTimes known;
  return known.of(trace);
}

void measure_times(const Scenario& scenario) {
  for (const auto& side : {std::cref(scenario.predicted), std::cref(scenario.profiled)})
    if (side.get())
      for (const auto& trace : side.get()->ranks) times_of(trace);
}

}  // namespace shardscope::gui

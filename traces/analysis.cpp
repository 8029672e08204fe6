#include "traces/analysis.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>

namespace shardscope {
namespace {

constexpr std::string_view step_prefix = "ProfilerStep#";

/// The number of a step annotation "ProfilerStep#12".
std::optional<int> annotated_step(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  name.remove_prefix(step_prefix.size());
  int step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc{} || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

void widen(std::map<int, TimeWindow>& windows, int step, TimeWindow window) {
  const auto [at, is_new] = windows.try_emplace(step, window);
  if (is_new) return;
  at->second.begin = std::min(at->second.begin, window.begin);
  at->second.end = std::max(at->second.end, window.end);
}

/// What runs on the device inside a window.
BusyTimes busy_times(const Trace& trace, TimeWindow window) {
  std::vector<TimeWindow> compute, communication, copies;
  for (const Span& span : trace.spans) {
    const TimeWindow part = clipped({.begin = span.start, .end = span.end()}, window);
    if (part.end <= part.begin || !is_on_device(trace, span)) continue;
    if (span.span_class == SpanClass::compute) compute.push_back(part);
    if (span.span_class == SpanClass::communication) communication.push_back(part);
    if (span.span_class == SpanClass::copy) copies.push_back(part);
  }
  return {.compute = IntervalUnion(std::move(compute)),
          .communication = IntervalUnion(std::move(communication)),
          .copies = IntervalUnion(std::move(copies))};
}

/// Both come by begin, so that the union has nothing to sort.
IntervalUnion joined(const IntervalUnion& a, const IntervalUnion& b) {
  std::vector<TimeWindow> windows;
  windows.reserve(a.windows().size() + b.windows().size());
  std::merge(a.windows().begin(), a.windows().end(), b.windows().begin(), b.windows().end(),
             std::back_inserter(windows),
             [](TimeWindow left, TimeWindow right) { return left.begin < right.begin; });
  return IntervalUnion(std::move(windows));
}

struct UnitWindows {
  std::vector<TimeWindow> compute;
  std::vector<TimeWindow> communication;
  Bytes communication_bytes;
};

}  // namespace

TimeWindow device_window(const Trace& trace) {
  std::optional<TimeWindow> result;
  for (const Span& span : trace.spans) {
    if (!is_on_device(trace, span)) continue;
    if (!result) result = TimeWindow{.begin = span.start, .end = span.end()};
    result->begin = std::min(result->begin, span.start);
    result->end = std::max(result->end, span.end());
  }
  return result.value_or(TimeWindow{});
}

Accounting account(const BusyTimes& busy, TimeWindow window) {
  const IntervalUnion compute_or_communication = joined(busy.compute, busy.communication);
  const IntervalUnion any = joined(compute_or_communication, busy.copies);
  const Duration span = std::max(Duration{}, window.length());
  return {.span = span,
          .compute = busy.compute.length(),
          .exposed_communication = compute_or_communication.length() - busy.compute.length(),
          .exposed_copy = any.length() - compute_or_communication.length(),
          .idle = span - any.length(),
          .communication = busy.communication.length(),
          .overlap = overlap(busy.communication, busy.compute)};
}

Accounting account(const Trace& trace, TimeWindow window) {
  return account(busy_times(trace, window), window);
}

std::vector<StepWindow> step_windows(const Trace& trace) {
  std::map<int, TimeWindow> annotated;
  std::map<int, TimeWindow> tagged;
  for (const Span& span : trace.spans) {
    const TimeWindow window{.begin = span.start, .end = span.end()};
    if (span.span_class == SpanClass::annotation) {
      if (const auto step = annotated_step(trace.name(span))) widen(annotated, *step, window);
    } else if (span.step > 0) {
      widen(tagged, span.step, window);
    }
  }
  // The host needs time before the first operation of a prediction starts.
  const bool begins_at_zero = trace.kind == TraceKind::predicted && !tagged.empty();
  if (begins_at_zero) {
    TimeWindow& first = tagged.begin()->second;
    first.begin = std::min(first.begin, Duration{});
  }
  for (const auto& [step, window] : annotated) tagged[step] = window;
  std::vector<StepWindow> result;
  for (const auto& [step, window] : tagged) result.push_back({.step = step, .window = window});
  if (result.empty()) result.push_back({.step = 0, .window = device_window(trace)});
  return result;
}

std::size_t steady_step(const std::vector<StepWindow>& steps) {
  std::vector<std::size_t> order;
  for (std::size_t i = steps.size() >= 3 ? 1 : 0; i < steps.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return steps[a].window.length() < steps[b].window.length();
  });
  return order[(order.size() - 1) / 2];
}

std::vector<UnitAccounting> account_by_unit(const Trace& trace, TimeWindow window) {
  const FactsTable facts(trace);
  std::vector<std::string> order;
  std::map<std::string_view, UnitWindows> units;
  for (const OperationFacts& operation : trace.facts) {
    if (!order.empty() && operation.unit == order.back()) continue;
    if (units.try_emplace(operation.unit).second) order.push_back(operation.unit);
  }
  for (const Span& span : trace.spans) {
    const TimeWindow part = clipped({.begin = span.start, .end = span.end()}, window);
    const bool starts_inside = window.begin <= span.start && span.start < window.end;
    const bool meets_window = part.begin < part.end || starts_inside;
    if (!meets_window || !is_on_device(trace, span)) continue;
    const OperationFacts* operation = facts.find(span.operation);
    if (operation == nullptr) continue;
    UnitWindows& unit = units.find(operation->unit)->second;
    if (span.span_class == SpanClass::compute) unit.compute.push_back(part);
    if (span.span_class != SpanClass::communication) continue;
    unit.communication.push_back(part);
    if (starts_inside) unit.communication_bytes += operation->bytes;
  }
  const IntervalUnion compute = busy_times(trace, window).compute;
  std::vector<UnitAccounting> result;
  for (const std::string& name : order) {
    UnitWindows& unit = units.find(name)->second;
    const IntervalUnion communication(std::move(unit.communication));
    result.push_back(
        {.unit = name,
         .compute = IntervalUnion(std::move(unit.compute)).length(),
         .communication = communication.length(),
         .exposed_communication = communication.length() - overlap(communication, compute),
         .communication_bytes = unit.communication_bytes});
  }
  return result;
}

MemoryPeak memory_peak(const Trace& trace, TimeWindow window) {
  auto sample =
      std::lower_bound(trace.memory.begin(), trace.memory.end(), window.begin,
                       [](const MemorySample& s, Duration time) { return s.time < time; });
  // What is live at the window's begin was set by the last sample before it, unless one falls on
  // the begin itself.
  const bool is_set_at_begin = sample != trace.memory.end() && sample->time == window.begin;
  if (!is_set_at_begin && sample != trace.memory.begin()) --sample;
  MemoryPeak peak;
  bool is_first = true;
  for (;
       sample != trace.memory.end() && (sample->time <= window.begin || sample->time < window.end);
       ++sample) {
    const Bytes total = sample->live.total();
    if (is_first || total > peak.total) {
      peak.total = total;
      peak.time = std::max(sample->time, window.begin);
      peak.operation = sample->operation;
      peak.at_peak = sample->live;
    }
    for (const MemoryCategory category : memory_categories) {
      peak.maximum[category] = std::max(peak.maximum[category], sample->live[category]);
    }
    is_first = false;
  }
  return peak;
}

}  // namespace shardscope

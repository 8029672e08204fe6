#include "traces/operation_runs.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shardscope {
namespace {

using StepAndOperation = std::pair<std::int32_t, OperationId>;

/// The steps that count, with their begins.
std::map<std::int32_t, Duration> begins_of(const Trace& trace) {
  std::map<std::int32_t, Duration> begins;
  const std::vector<StepWindow> steps = step_windows(trace);
  const std::size_t warm_up = steps.size() >= 3 && steps.front().step <= 1 ? 1 : 0;
  for (std::size_t i = warm_up; i < steps.size(); ++i)
    begins[steps[i].step] = steps[i].window.begin;
  return begins;
}

/// Device spans of operations by track and start.
std::vector<std::uint32_t> spans_in_order(const Trace& trace) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (span.operation && is_on_device(trace, span)) order.push_back(static_cast<std::uint32_t>(i));
  }
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) {
    return std::pair(trace.spans[i].track, trace.spans[i].start);
  });
  return order;
}

/// How long the span's track did nothing before it in its step.
Duration gap_before(const Span& span, const Span* before, Duration step_begin) {
  if (span.span_class != SpanClass::compute) return {};
  const bool follows =
      before != nullptr && before->track == span.track && before->step == span.step;
  const Duration free_since = follows ? std::max(before->end(), step_begin) : step_begin;
  return std::max(span.start - free_since, Duration{});
}

std::map<StepAndOperation, OperationRun> all_runs(const Trace& trace) {
  const std::map<std::int32_t, Duration> begins = begins_of(trace);
  std::map<StepAndOperation, OperationRun> runs;
  const Span* before = nullptr;
  for (const std::uint32_t i : spans_in_order(trace)) {
    const Span& span = trace.spans[i];
    const auto begin = begins.find(span.step);
    if (begin == begins.end()) continue;
    const Duration gap = gap_before(span, before, begin->second);
    OperationRun fresh{.operation = span.operation,
                       .step = span.step,
                       .span = i,
                       .window = {span.start, span.end()},
                       .duration = {},
                       .gap = {}};
    OperationRun& run = runs.try_emplace({span.step, span.operation}, fresh).first->second;
    run.duration += span.duration;
    run.gap += gap;
    run.window.begin = std::min(run.window.begin, span.start);
    run.window.end = std::max(run.window.end, span.end());
    before = &span;
  }
  return runs;
}

}  // namespace

std::map<OperationId, OperationRun> typical_runs(const Trace& trace) {
  std::map<OperationId, std::vector<OperationRun>> by_operation;
  for (const auto& [key, run] : all_runs(trace)) by_operation[key.second].push_back(run);
  std::map<OperationId, OperationRun> typical;
  for (auto& [operation, runs] : by_operation) {
    std::ranges::stable_sort(runs, {}, &OperationRun::total);
    typical.emplace(operation, runs[(runs.size() - 1) / 2]);
  }
  return typical;
}

std::optional<Beside> longest_beside(const Trace& trace, SpanClass span_class, TimeWindow window,
                                     OperationId but) {
  std::optional<Beside> longest;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (span.span_class != span_class || span.operation == but || !is_on_device(trace, span))
      continue;
    const Duration time = clipped({span.start, span.end()}, window).length();
    if (time > Duration{} && (!longest || time > longest->time))
      longest = Beside{.span = static_cast<std::uint32_t>(i), .time = time};
  }
  return longest;
}

}  // namespace shardscope

#include "traces/import/hta_accounting.h"

#include <algorithm>

namespace shardscope {
namespace {

/// Stretches of events that overlap or touch, by begin. One that rounding made end before it begins
/// is a stretch of negative length, as it is there.
std::vector<TimeWindow> merged(std::vector<TimeWindow> windows) {
  std::stable_sort(windows.begin(), windows.end(),
                   [](TimeWindow a, TimeWindow b) { return a.begin < b.begin; });
  std::vector<TimeWindow> stretches;
  Duration last_end;
  for (const TimeWindow window : windows) {
    if (stretches.empty() || window.begin > last_end) {
      last_end = stretches.empty() ? window.end : std::max(last_end, window.end);
      stretches.push_back(window);
      continue;
    }
    last_end = std::max(last_end, window.end);
    stretches.back().end = std::max(stretches.back().end, window.end);
  }
  return stretches;
}

std::vector<TimeWindow> merged_of(const std::vector<HtaEvent>& events, SpanClass span_class) {
  std::vector<TimeWindow> windows;
  for (const HtaEvent& event : events) {
    if (event.span_class == span_class) windows.push_back(event.window);
  }
  return merged(std::move(windows));
}

Duration length_of(const std::vector<TimeWindow>& stretches) {
  Duration sum;
  for (const TimeWindow stretch : stretches) sum += stretch.length();
  return sum;
}

IntervalUnion positive(const std::vector<TimeWindow>& stretches) {
  std::vector<TimeWindow> windows;
  for (const TimeWindow stretch : stretches) {
    if (stretch.begin < stretch.end) windows.push_back(stretch);
  }
  return IntervalUnion(std::move(windows));
}

}  // namespace

Accounting hta_accounting(const std::vector<HtaEvent>& events) {
  Accounting time;
  if (events.empty()) return time;
  std::vector<TimeWindow> windows;
  for (const HtaEvent& event : events) windows.push_back(event.window);
  const std::vector<TimeWindow> all = merged(std::move(windows));
  const std::vector<TimeWindow> compute = merged_of(events, SpanClass::compute);
  const std::vector<TimeWindow> communication = merged_of(events, SpanClass::communication);
  time.span = all.back().end - all.front().begin;
  time.compute = length_of(compute);
  time.idle = time.span - length_of(all);
  time.communication = length_of(communication);
  time.overlap = overlap(positive(communication), positive(compute));
  const Duration non_compute = time.span - time.compute - time.idle;
  time.exposed_communication = std::min(time.communication - time.overlap, non_compute);
  time.exposed_copy = non_compute - time.exposed_communication;
  return time;
}

Duration hta_copies(const std::vector<HtaEvent>& events) {
  return length_of(merged_of(events, SpanClass::copy));
}

}  // namespace shardscope

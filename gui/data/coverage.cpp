#include "gui/data/coverage.h"

#include <algorithm>
#include <utility>

#include "traces/intervals.h"

namespace shardscope::gui {
namespace {

IntervalUnion union_of(const Trace& trace, SpanClass span_class) {
  std::vector<TimeWindow> windows;
  for (const Span& span : trace.spans)
    if (span.span_class == span_class && is_on_device(trace, span))
      windows.push_back({.begin = span.start, .end = span.end()});
  return IntervalUnion(std::move(windows));
}

IntervalUnion joined(const IntervalUnion& a, const IntervalUnion& b) {
  std::vector<TimeWindow> windows;
  windows.reserve(a.windows().size() + b.windows().size());
  std::merge(a.windows().begin(), a.windows().end(), b.windows().begin(), b.windows().end(),
             std::back_inserter(windows),
             [](TimeWindow left, TimeWindow right) { return left.begin < right.begin; });
  return IntervalUnion(std::move(windows));
}

}  // namespace

CoveredTime::CoveredTime(const std::vector<TimeWindow>& ascending) : windows_(ascending) {
  before_.reserve(windows_.size());
  std::int64_t sum = 0;
  for (const TimeWindow& window : windows_) {
    before_.push_back(sum);
    sum += window.length().ns;
  }
}

std::int64_t CoveredTime::before(std::int64_t time, std::size_t& from) const {
  // `from`: a window that begins at or before the time asked for last.
  std::size_t step = 1;
  while (from + step < windows_.size() && windows_[from + step].begin.ns <= time) {
    from += step;
    step *= 2;
  }
  const auto begin = windows_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto end =
      windows_.begin() + static_cast<std::ptrdiff_t>(std::min(windows_.size(), from + step + 1));
  const auto next = std::partition_point(
      begin, end, [time](const TimeWindow& window) { return window.begin.ns <= time; });
  if (next == begin) return from == 0 ? 0 : before_[from];
  from = static_cast<std::size_t>(next - windows_.begin()) - 1;
  return before_[from] + std::min(time - windows_[from].begin.ns, windows_[from].length().ns);
}

std::int64_t CoveredTime::covered(std::int64_t begin, std::int64_t end) const {
  if (windows_.empty() || end <= begin) return 0;
  std::size_t from = 0;
  const std::int64_t first = before(begin, from);
  return before(end, from) - first;
}

void CoveredTime::covered(std::span<const std::int64_t> edges,
                          std::vector<std::int64_t>& lengths) const {
  lengths.assign(edges.empty() ? 0 : edges.size() - 1, 0);
  if (windows_.empty() || edges.empty()) return;
  std::size_t from = 0;
  std::int64_t last = before(edges[0], from);
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const std::int64_t now = before(edges[i], from);
    lengths[i - 1] = now - last;
    last = now;
  }
}

Coverage::Coverage(const Trace& trace) {
  const IntervalUnion compute = union_of(trace, SpanClass::compute);
  const IntervalUnion communication = union_of(trace, SpanClass::communication);
  const IntervalUnion copies = union_of(trace, SpanClass::copy);
  const IntervalUnion both = joined(compute, communication);
  const std::vector<TimeWindow> exposed = difference(communication, compute);
  compute_ = CoveredTime(compute.windows());
  communication_ = CoveredTime(communication.windows());
  exposed_ = CoveredTime(exposed);
  overlapped_ = CoveredTime(difference(communication, IntervalUnion(exposed)));
  exposed_copies_ = CoveredTime(difference(copies, both));
  busy_ = CoveredTime(joined(both, copies).windows());
}

Accounting Coverage::account(TimeWindow window) const {
  const auto inside = [window](const CoveredTime& time) {
    return Duration{time.covered(window.begin.ns, window.end.ns)};
  };
  return {.span = window.length(),
          .compute = inside(compute_),
          .exposed_communication = inside(exposed_),
          .exposed_copy = inside(exposed_copies_),
          .idle = window.length() - inside(busy_),
          .communication = inside(communication_),
          .overlap = inside(overlapped_)};
}

std::vector<PixelTimes> Coverage::pixels(std::span<const std::int64_t> edges) const {
  std::vector<PixelTimes> result(edges.empty() ? 0 : edges.size() - 1);
  std::vector<std::int64_t> lengths;
  const auto fill = [&](const CoveredTime& time, std::int64_t PixelTimes::*member) {
    time.covered(edges, lengths);
    for (std::size_t i = 0; i < result.size(); ++i) result[i].*member = lengths[i];
  };
  fill(compute_, &PixelTimes::compute);
  fill(overlapped_, &PixelTimes::overlapped);
  fill(exposed_, &PixelTimes::communication);
  fill(exposed_copies_, &PixelTimes::copy);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i].idle =
        edges[i + 1] - edges[i] - result[i].compute - result[i].communication - result[i].copy;
  return result;
}

}  // namespace shardscope::gui

#include "tests/backend/profile/stretch_accounting.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

namespace shardscope {

Accounting account_by_stretches(const Trace& trace, TimeWindow window) {
  std::set<std::int64_t> moments{window.begin.ns, window.end.ns};
  std::vector<Span> device;
  for (const Span& span : trace.spans) {
    if (!is_on_device(trace, span)) continue;
    device.push_back(span);
    for (const Duration moment : {span.start, span.end()})
      moments.insert(std::clamp(moment, window.begin, window.end).ns);
  }
  Accounting sum{.span = window.length()};
  for (auto begin = moments.begin(), end = std::next(begin); end != moments.end(); ++begin, ++end) {
    const auto runs = [&](SpanClass what) {
      return std::ranges::any_of(device, [&](const Span& span) {
        return span.span_class == what && span.start.ns <= *begin && span.end().ns >= *end;
      });
    };
    const Duration length{*end - *begin};
    const bool computes = runs(SpanClass::compute), communicates = runs(SpanClass::communication);
    if (communicates) sum.communication += length;
    if (communicates && computes) sum.overlap += length;
    (computes                ? sum.compute
     : communicates          ? sum.exposed_communication
     : runs(SpanClass::copy) ? sum.exposed_copy
                             : sum.idle) += length;
  }
  return sum;
}

}  // namespace shardscope

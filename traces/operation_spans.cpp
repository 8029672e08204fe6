#include "traces/operation_spans.h"

#include <algorithm>
#include <utility>

namespace shardscope {

OperationSpans::OperationSpans(const Trace& trace) {
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (!span.operation || !is_on_device(trace, span)) continue;
    rows_.push_back({span.step, span.operation, static_cast<std::uint32_t>(i)});
  }
  std::ranges::stable_sort(rows_, {},
                           [](const Row& row) { return std::pair(row.step, row.operation); });
}

std::optional<std::uint32_t> OperationSpans::find(std::int64_t step, OperationId operation) const {
  const auto found =
      std::ranges::lower_bound(rows_, std::pair(step, operation), {},
                               [](const Row& row) { return std::pair(row.step, row.operation); });
  if (found == rows_.end() || found->step != step || found->operation != operation)
    return std::nullopt;
  return found->span;
}

}  // namespace shardscope

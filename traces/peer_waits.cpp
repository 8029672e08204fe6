#include "traces/peer_waits.h"

namespace shardscope {

std::optional<PeerWaitTotals> peer_wait_totals(const Trace& trace) {
  const FactsTable facts(trace);
  PeerWaitTotals totals;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    const std::optional<std::int64_t> waiting = measure_of(trace, i, "waiting_ns");
    if (!waiting) continue;
    ++totals.collectives;
    totals.waiting += Duration{*waiting};
    totals.moving += span.duration - Duration{*waiting};
    if (const OperationFacts* operation = facts.find(span.operation))
      totals.bytes += operation->bytes;
    if (const auto last = measure_of(trace, i, "last_rank"))
      ++totals.times_last[static_cast<int>(*last)];
  }
  if (totals.collectives == 0) return std::nullopt;
  return totals;
}

}  // namespace shardscope

#include "traces/peer_waits.h"

#include <gtest/gtest.h>

#include "tests/traces/sample_traces.h"

namespace shardscope {
namespace {

TEST(PeerWaitTotals, SplitWhatWasMeasured) {
  Trace trace = samples::empty_trace();
  trace.facts = {{.operation = {5}, .name = "all_gather", .bytes = 1000_B}};
  const auto add = [&](std::int64_t begin, std::int64_t end) -> Span& {
    return samples::add_span(trace, SpanClass::communication, 2, begin, end);
  };
  add(0, 100).operation = {5};
  add(200, 350).operation = {5};
  add(400, 410).operation = {5};  // not measured
  trace.measures = {"cycles", "waiting_ns", "last_rank"};
  trace.span_measures = {{0, 1, 30}, {0, 2, 1}, {1, 1, 150}, {1, 2, 3}, {2, 0, 77}};
  EXPECT_EQ(peer_wait_totals(trace), (PeerWaitTotals{.collectives = 2,
                                                     .waiting = 180_ns,  // 30 + 150
                                                     .moving = 70_ns,    // 70 + 0
                                                     .bytes = 2000_B,
                                                     .times_last = {{1, 1}, {3, 1}}}));
}

TEST(PeerWaitTotals, AreAbsentWhereNothingWasMeasured) {
  EXPECT_EQ(peer_wait_totals(samples::two_steps()), std::nullopt);
}

}  // namespace
}  // namespace shardscope

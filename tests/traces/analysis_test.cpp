#include "traces/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/traces/sample_traces.h"

namespace shardscope {
namespace {

using samples::add_span;
using samples::empty_trace;
using samples::two_steps;

constexpr int compute_track = 1, unshard_track = 2, reduce_track = 3, copy_track = 4;

TEST(IntervalUnion, JoinsTouchingWindowsAndDropsEmptyOnes) {
  const IntervalUnion joined({{10_ns, 20_ns}, {0_ns, 5_ns}, {20_ns, 25_ns}, {7_ns, 7_ns}});
  EXPECT_THAT(joined.windows(),
              testing::ElementsAre(TimeWindow{0_ns, 5_ns}, TimeWindow{10_ns, 25_ns}));
  EXPECT_EQ(joined.length(), 20_ns);
}

/// `streams` streams that begin a window of 1 ns by turns, every 10 ns each and 100 us apart.
std::vector<TimeWindow> by_turns(int streams, int rounds) {
  std::vector<TimeWindow> windows;
  for (int round = 0; round < rounds; ++round)
    for (int stream = 0; stream < streams; ++stream) {
      const Duration begin{100'000 * std::int64_t{stream} + 10 * round};
      windows.push_back({begin, begin + 1_ns});
    }
  return windows;
}

TEST(IntervalUnion, JoinsWindowsOfFewAndOfManyStreams) {
  for (const int streams : {2, 8, 9, 40}) {
    const IntervalUnion joined(by_turns(streams, 100));
    ASSERT_EQ(std::ssize(joined.windows()), streams * 100);
    EXPECT_EQ(joined.length(), Duration{streams * 100});
    EXPECT_EQ(joined.windows()[100], (TimeWindow{100'000_ns, 100'001_ns}));
    EXPECT_EQ(joined.windows()[199], (TimeWindow{100'990_ns, 100'991_ns}));
  }
  std::vector<TimeWindow> backwards = by_turns(1, 100);
  std::ranges::reverse(backwards);
  EXPECT_EQ(IntervalUnion(backwards).windows(), IntervalUnion(by_turns(1, 100)).windows());
}

TEST(IntervalUnion, CoversPartsOfWindows) {
  const IntervalUnion joined({{0_ns, 10_ns}, {20_ns, 30_ns}});
  EXPECT_EQ(joined.covered({5_ns, 22_ns}), 7_ns);  // 5..10 and 20..22
  EXPECT_EQ(joined.covered({12_ns, 18_ns}), 0_ns);
}

TEST(IntervalUnion, DifferenceKeepsWhatTheOtherDoesNotCover) {
  const IntervalUnion a({{0_ns, 10_ns}, {20_ns, 30_ns}});
  const IntervalUnion b({{5_ns, 22_ns}, {25_ns, 26_ns}});
  EXPECT_THAT(difference(a, b),
              testing::ElementsAre(TimeWindow{0_ns, 5_ns}, TimeWindow{22_ns, 25_ns},
                                   TimeWindow{26_ns, 30_ns}));
}

TEST(Accounting, SplitsAStepAsItsTimelineSays) {
  const Accounting step = account(two_steps(), {0_us, 100_us});
  EXPECT_EQ(step.compute, 60_us);                // 15..70 and 95..100
  EXPECT_EQ(step.exposed_communication, 35_us);  // 0..15 and 70..90
  EXPECT_EQ(step.exposed_copy, 5_us);            // 90..95: 85..90 is under the reduce-scatter
  EXPECT_EQ(step.idle, 0_us);
  EXPECT_EQ(step.communication, 50_us);
  EXPECT_EQ(step.overlap, 15_us);  // 15..20 and 60..70
}

TEST(Accounting, CountsConcurrentCollectivesOnce) {
  Trace trace = empty_trace();
  add_span(trace, SpanClass::communication, unshard_track, 0, 10);
  add_span(trace, SpanClass::communication, reduce_track, 5, 15);
  EXPECT_EQ(account(trace, device_window(trace)).exposed_communication, 15_ns);
}

TEST(Accounting, IgnoresHostSpansAnnotationsAndTheHostTrack) {
  Trace trace = empty_trace();
  add_span(trace, SpanClass::compute, compute_track, 10, 20);
  add_span(trace, SpanClass::annotation, compute_track, 0, 50);
  add_span(trace, SpanClass::host, 0, 0, 50);
  add_span(trace, SpanClass::compute, 0, 0, 50);
  EXPECT_EQ(device_window(trace), (TimeWindow{10_ns, 20_ns}));
  EXPECT_EQ(account(trace, {0_ns, 50_ns}).idle, 40_ns);
}

TEST(Accounting, ClipsSpansThatReachOverTheWindow) {
  Trace trace = empty_trace();
  add_span(trace, SpanClass::compute, compute_track, 0, 100);
  add_span(trace, SpanClass::communication, unshard_track, 90, 200);
  const Accounting part = account(trace, {50_ns, 150_ns});
  EXPECT_EQ(part.compute, 50_ns);
  EXPECT_EQ(part.exposed_communication, 50_ns);
}

TEST(Accounting, OfAnEmptyTraceIsZero) { EXPECT_EQ(account(empty_trace(), {}), Accounting{}); }

/// The definition itself, nanosecond by nanosecond.
Accounting counted(const Trace& trace, TimeWindow window) {
  Accounting result{.span = window.length()};
  for (std::int64_t t = window.begin.ns; t < window.end.ns; ++t) {
    bool compute = false, communication = false, copy = false;
    for (const Span& span : trace.spans) {
      if (t < span.start.ns || t >= span.end().ns) continue;
      compute |= span.span_class == SpanClass::compute;
      communication |= span.span_class == SpanClass::communication;
      copy |= span.span_class == SpanClass::copy;
    }
    result.compute.ns += compute;
    result.communication.ns += communication;
    result.overlap.ns += compute && communication;
    result.exposed_communication.ns += communication && !compute;
    result.exposed_copy.ns += copy && !communication && !compute;
    result.idle.ns += !copy && !communication && !compute;
  }
  return result;
}

TEST(Accounting, AgreesWithCountingEveryNanosecond) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> start(0, 180), length(0, 25), count(0, 40), pick(0, 3);
  const SpanClass classes[] = {SpanClass::compute, SpanClass::communication, SpanClass::copy,
                               SpanClass::annotation};
  const int tracks[] = {compute_track, unshard_track, copy_track, compute_track};
  for (int round = 0; round < 300; ++round) {
    Trace trace = empty_trace();
    for (int i = count(random); i > 0; --i) {
      const int which = pick(random);
      const int begin = start(random);
      add_span(trace, classes[which], tracks[which], begin, begin + length(random));
    }
    const TimeWindow window{{start(random) / 2}, {90 + start(random)}};
    const Accounting result = account(trace, window);
    ASSERT_EQ(result, counted(trace, window)) << "round " << round;
    ASSERT_EQ(result.span,
              result.compute + result.exposed_communication + result.exposed_copy + result.idle);
  }
}

TEST(StepWindows, SpanWhatIsTaggedHostIncluded) {
  // Step 2's first host span starts 2 us before its first forward at 115 us, after the all-gather
  // at 100 us.
  EXPECT_THAT(step_windows(two_steps()),
              testing::ElementsAre(StepWindow{1, {0_us, 100_us}}, StepWindow{2, {100_us, 200_us}}));
}

TEST(StepWindows, FollowAnnotationsWhereThereAreSome) {
  Trace trace = two_steps();
  trace.names.push_back("ProfilerStep#1");
  add_span(trace, SpanClass::annotation, 0, -5000, 99000).name =
      static_cast<std::uint32_t>(trace.names.size() - 1);
  EXPECT_EQ(step_windows(trace).front(), (StepWindow{1, {Duration{-5000}, 99_us}}));
}

TEST(StepWindows, OfAPredictionBeginAtZero) {
  for (const auto& [kind, begin] :
       {std::pair{TraceKind::predicted, 0_ns}, std::pair{TraceKind::profiled, 10_ns}}) {
    Trace trace = empty_trace(kind);
    add_span(trace, SpanClass::compute, compute_track, 10, 20).step = 1;
    EXPECT_EQ(step_windows(trace).front().window.begin, begin);
  }
}

TEST(StepWindows, OfAnUntaggedTraceAreOneStepZero) {
  Trace trace = empty_trace();
  add_span(trace, SpanClass::compute, compute_track, 10, 20);
  EXPECT_THAT(step_windows(trace), testing::ElementsAre(StepWindow{0, {10_ns, 20_ns}}));
}

TEST(SteadyStep, IsTheLowerMedianWithoutTheFirst) {
  const auto step = [](int number, std::int64_t ns) { return StepWindow{number, {{}, {ns}}}; };
  EXPECT_EQ(steady_step({step(1, 50)}), 0u);
  EXPECT_EQ(steady_step({step(1, 50), step(2, 40)}), 1u);
  EXPECT_EQ(steady_step({step(1, 11), step(2, 13), step(3, 10), step(4, 12), step(5, 14)}),
            3u);  // 10 [12] 13 14
}

TEST(AccountByUnit, GivesEachUnitItsOwn) {
  EXPECT_THAT(account_by_unit(two_steps(), {0_us, 100_us}),
              testing::ElementsAre(UnitAccounting{.unit = "h.0",
                                                  .compute = 55_us,
                                                  .communication = 50_us,
                                                  .exposed_communication = 35_us,
                                                  .communication_bytes = 800_B},
                                   UnitAccounting{.unit = "", .compute = 5_us}));
}

TEST(MemoryPeak, IsTheHighestTotalAndWhoReachedIt) {
  const MemoryPeak peak = memory_peak(two_steps(), {0_us, 100_us});
  EXPECT_EQ(peak.total, 1800_B);
  EXPECT_EQ(peak.operation, OperationId{2});
  EXPECT_EQ(peak.time, 40_us);
  EXPECT_EQ(peak.at_peak[MemoryCategory::communication], 0_B);
  EXPECT_EQ(peak.maximum[MemoryCategory::communication], 400_B);  // earlier than the peak
}

TEST(MemoryPeak, CountsWhatWasLiveWhenTheWindowBegan) {
  const MemoryPeak peak = memory_peak(two_steps(), {50_us, 60_us});
  EXPECT_EQ(peak.total, 1800_B);
  EXPECT_EQ(peak.time, 50_us);
}

TEST(MemoryPeak, LeavesOutWhatComesAfterTheWindow) {
  EXPECT_EQ(memory_peak(two_steps(), {0_us, 40_us}).total, 1700_B);
}

TEST(MemoryPeak, DoesNotCarryAStateThatEndsAsTheWindowBegins) {
  EXPECT_EQ(memory_peak(two_steps(), {70_us, 100_us}).total, 1500_B);
}

}  // namespace
}  // namespace shardscope

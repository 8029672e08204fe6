#include "traces/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/sample_traces.h"

namespace shardscope {
namespace {

using samples::add_span;
using samples::two_steps;

const OperationComparison& operation(const Comparison& comparison, std::uint32_t id) {
  for (const OperationComparison& candidate : comparison.operations) {
    if (candidate.id == OperationId{id}) return candidate;
  }
  throw std::out_of_range("operation");
}

/// Adds `extra_us` to the durations of operation `id` in `step`.
void lengthen(Trace& trace, std::uint32_t id, int step, std::int64_t extra_us) {
  for (Span& span : trace.spans) {
    if (span.operation == OperationId{id} && span.step == step && is_on_device(trace, span)) {
      span.duration += 1_us * extra_us;
    }
  }
}

TEST(ErrorShare, IsSignedAndRelativeToTheProfiledValue) {
  EXPECT_DOUBLE_EQ(*error_share(SideBySide<Duration>{{110_ms}, {100_ms}}), 0.1);
  EXPECT_DOUBLE_EQ(*error_share(SideBySide<Duration>{{80_ms}, {100_ms}}), -0.2);
  EXPECT_FALSE(error_share(SideBySide<Duration>{{80_ms}, {0_ms}}).has_value());
}

TEST(Compare, OfATraceWithItselfHasNoErrors) {
  const Trace trace = two_steps();
  const Comparison same = compare({trace}, {trace});
  EXPECT_EQ(same.operations.size(), 6u);
  EXPECT_EQ(same.step_time_error_share, 0.0);
  EXPECT_EQ(same.peak_error, 0_B);
  EXPECT_TRUE(same.only_predicted.empty() && same.only_profiled.empty());
}

TEST(Compare, PutsDurationStartAndBytesOfEachOperationSideBySide) {
  Trace predicted = two_steps(TraceKind::predicted);
  predicted.facts[2].bytes = 2000_B;
  lengthen(predicted, 1, 1, 5);
  lengthen(predicted, 1, 2, 5);
  const Trace profiled = two_steps();
  const Comparison comparison = compare({predicted}, {profiled});
  const OperationComparison& forward = operation(comparison, 1);
  EXPECT_EQ(forward.name, "h.0.forward");
  EXPECT_EQ(forward.unit, "h.0");
  EXPECT_EQ(forward.duration.predicted.value, 30_us);
  EXPECT_EQ(forward.duration.profiled.value, 25_us);
  EXPECT_EQ(forward.start.profiled.value, 15_us);  // since its step's begin, also in step 2
  EXPECT_EQ(operation(comparison, 2).bytes.predicted.value, 2000_B);
  EXPECT_EQ(operation(comparison, 2).bytes.profiled.value, 1900_B);
}

TEST(Compare, TakesTheLowerMedianOverSteps) {
  Trace profiled = two_steps();
  lengthen(profiled, 4, 1, 40);  // one slow step of two: 50 and 10
  const Trace predicted = two_steps(TraceKind::predicted);
  EXPECT_EQ(operation(compare({predicted}, {profiled}), 4).duration.profiled.value, 10_us);
}

TEST(Compare, JoinsSpansOfOneOperationInOneStep) {
  Trace profiled = two_steps();
  for (const int step : {1, 2}) {
    Span& second = add_span(profiled, SpanClass::compute, 1, (step - 1) * 100000 + 41000,
                            (step - 1) * 100000 + 42000);
    second.operation = {1};
    second.step = step;
  }
  const Trace predicted = two_steps(TraceKind::predicted);
  EXPECT_EQ(operation(compare({predicted}, {profiled}), 1).duration.profiled.value, 26_us);
}

TEST(Compare, StatesStepTimeAndPeakErrors) {
  Trace predicted = two_steps(TraceKind::predicted);
  for (const int step : {1, 2}) lengthen(predicted, 5, step, 10);  // steps of 110 us
  Trace profiled = two_steps();
  for (MemorySample& sample : profiled.memory) sample.live[MemoryCategory::workspace] = 90_B;
  const Comparison comparison = compare({predicted}, {profiled});
  EXPECT_DOUBLE_EQ(*comparison.step_time_error_share, 0.1);
  EXPECT_EQ(comparison.peak_error, Bytes{-90});
  EXPECT_DOUBLE_EQ(*comparison.peak_error_share, -90.0 / 1890);
  EXPECT_EQ(comparison.peak_error_by_category[MemoryCategory::workspace], Bytes{-90});
  EXPECT_EQ(comparison.peak_error_by_category[MemoryCategory::gradients], 0_B);
}

TEST(Compare, ListsOperationsOfOnlyOneSide) {
  Trace predicted = two_steps(TraceKind::predicted);
  Trace profiled = two_steps();
  std::erase_if(predicted.spans, [](const Span& span) { return span.operation == OperationId{3}; });
  std::erase_if(profiled.spans, [](const Span& span) { return span.operation == OperationId{4}; });
  const Comparison comparison = compare({predicted}, {profiled});
  EXPECT_THAT(comparison.only_profiled, testing::ElementsAre(OperationId{3}));
  EXPECT_THAT(comparison.only_predicted, testing::ElementsAre(OperationId{4}));
  EXPECT_EQ(comparison.operations.size(), 4u);
}

}  // namespace
}  // namespace shardscope

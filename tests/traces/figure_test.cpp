#include "traces/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/sample_traces.h"
#include "traces/svg.h"

namespace shardscope {
namespace {

using samples::two_steps;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// Every element is closed or empty, no attribute is not a number.
void expect_well_formed(const std::string& svg) {
  EXPECT_EQ(count_of(svg, "<"), count_of(svg, ">"));
  EXPECT_EQ(count_of(svg, "<text"), count_of(svg, "</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf\"")));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Svg, EscapesText) {
  Svg svg(10, 10);
  svg.text({1, 2}, "a<b & \"c\"\x01");
  EXPECT_THAT(svg.str(), HasSubstr(">a&lt;b &amp; &quot;c&quot;\\x01</text>"));
}

TEST(Svg, WritesCoordinatesWithAtMostTwoDecimals) {
  Svg svg(10, 10);
  svg.line({1.005, 2.5}, {-0.001, 100}, {.stroke = "#000"});
  EXPECT_THAT(svg.str(), HasSubstr("y1=\"2.5\" x2=\"0\" y2=\"100\""));
}

TEST(Svg, CutsTextThatDoesNotFit) {
  EXPECT_EQ(fitted("größe", 10, 1000), "größe");
  EXPECT_EQ(fitted("größer", 10, 5 * 5.8),
            "größ…");  // five letters of 5.8 px, the last one the ellipsis
  EXPECT_EQ(fitted("transformer", 10, 10), "");
}

TEST(MemoryFigure, FlagsBothPeaks) {
  Trace predicted = two_steps(TraceKind::predicted);
  const Trace profiled = two_steps();
  for (MemorySample& sample : predicted.memory) sample.live[MemoryCategory::workspace] = 1000_B;
  const std::string svg = memory_figure({&predicted}, {&profiled}, "A <title>");
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("A &lt;title&gt;"));
  EXPECT_THAT(svg, HasSubstr("predicted peak " + rounded_text(2800_B)));
  EXPECT_THAT(svg, HasSubstr("profiled peak " + rounded_text(1800_B)));
  EXPECT_THAT(svg, HasSubstr("h.0.backward"));
}

TEST(MemoryFigure, DrawsABandForEachCategoryInUse) {
  const Trace trace = two_steps();  // parameters, gradients, activations, communication
  EXPECT_EQ(count_of(memory_figure({nullptr}, {&trace}, ""), "<polygon"), 4u);
}

TEST(MemoryFigure, NeedsATrace) { EXPECT_THROW(memory_figure({nullptr}, {nullptr}, ""), Error); }

TEST(MemoryFigure, OfAnEmptyTraceIsAnEmptyFrame) {
  const Trace trace = samples::empty_trace();
  expect_well_formed(memory_figure({&trace}, {nullptr}, ""));
}

TEST(StreamsFigure, StatesTheIdentityOfEachSide) {
  const Trace predicted = two_steps(TraceKind::predicted), profiled = two_steps();
  const std::string svg = streams_figure({&predicted}, {&profiled}, "streams");
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, ">compute 45.0 us (45.0%)<"), 2u);  // 60 us less 15 us overlapped
  EXPECT_EQ(count_of(svg, ">overlapped 15.0 us (15.0%)<"), 2u);
  EXPECT_EQ(count_of(svg, ">exposed communication 35.0 us (35.0%)<"), 2u);
  EXPECT_EQ(count_of(svg, ">exposed copy 5.00 us (5.0%)<"), 2u);
}

TEST(StreamsFigure, OfManyTinySpansStaysSmall) {
  Trace trace = samples::empty_trace();
  for (int i = 0; i < 200000; ++i)
    samples::add_span(trace, SpanClass::compute, 1, 10 * i, 10 * i + 9);
  const std::string svg = streams_figure({&trace}, {nullptr}, "");
  expect_well_formed(svg);
  EXPECT_LT(svg.size(), 1'000'000u);
}

TEST(StreamsFigure, OfAnEmptyTraceIsAnEmptyFrame) {
  const Trace trace = samples::empty_trace();
  expect_well_formed(streams_figure({nullptr}, {&trace}, ""));
}

// From 4 KiB to 1 MiB (16^3 to 16^5) in 1100 px: 64 KiB lies in the middle, at 634; 10 us and 1 ms
// are the ends of the times, so that 100 us lies in the middle of 128 and 452.
TEST(CollectivesFigure, HasLogarithmicAxesBetweenRoundValues) {
  const auto point = [](Bytes bytes, Duration predicted, Duration measured, std::string choice) {
    return CollectivePoint{bytes, Predicted<Duration>{predicted}, Profiled<Duration>{measured},
                           std::move(choice)};
  };
  const std::string svg = collectives_figure(
      {{.kind = OperationKind::all_gather,
        .ranks = 4,
        .points = {point(4_KiB, 10_us, 20_us, "RING LL"), point(64_KiB, 90_us, 100_us, "RING LL"),
                   point(1_MiB, 900_us, 1_ms, "NVLS SIMPLE")}}},
      "collectives");
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr(R"(cx="634" cy="290")"));
  EXPECT_THAT(svg, AllOf(HasSubstr(">4 KiB<"), HasSubstr(">64 KiB<"), Not(HasSubstr(">1 MiB<")),
                         HasSubstr(">10 us<"), HasSubstr(">1 ms<"), HasSubstr(">4 ranks<")));
  EXPECT_EQ(count_of(svg, ">RING LL<"), 1u);
  EXPECT_EQ(count_of(svg, ">NVLS SIMPLE<"), 1u);
}

TEST(CollectivesFigure, OfNothingIsAnEmptyFrame) {
  expect_well_formed(collectives_figure({}, "nothing"));
}

TEST(ParetoFigure, LabelsEveryPointWithItsFigures) {
  const std::string svg = pareto_figure({{.number = "1",
                                          .label = "ddp no_shard",
                                          .step = Duration{2'000'000},
                                          .low = Duration{1'900'000},
                                          .high = Duration{2'200'000},
                                          .memory = Bytes{3ll << 30},
                                          .on_front = true},
                                         {.label = "mine.yaml",
                                          .step = Duration{4'000'000},
                                          .low = Duration{4'000'000},
                                          .high = Duration{4'000'000},
                                          .memory = Bytes{1ll << 30},
                                          .is_given = true}},
                                        Bytes{2ll << 30}, "a plan");
  EXPECT_THAT(svg, HasSubstr("1  ddp no_shard"));
  EXPECT_THAT(svg, HasSubstr("4.00 ms, 1.00 GiB"));
  EXPECT_THAT(svg, HasSubstr("a device has 2.00 GiB"));
}

TEST(ParetoFigure, OfNothingIsAnEmptyFrame) {
  EXPECT_THAT(pareto_figure({}, Bytes{}, "nothing"), HasSubstr("step time"));
}

TEST(StrategiesFigure, PutsTheSignedErrorBesideThePrediction) {
  const std::string svg =
      strategies_figure({{.label = "full_shard",
                          .predicted_peak = Predicted<Bytes>{90_MiB},
                          .profiled_peak = Profiled<Bytes>{100_MiB},
                          .predicted_step = Predicted<Duration>{110_ms},
                          .profiled_step = Profiled<Duration>{100_ms}},
                         {.label = "zero1", .predicted_step = Predicted<Duration>{50_ms}}},
                        "strategies");
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("90.0 MiB  (-10.0%)"));
  EXPECT_THAT(svg, HasSubstr("110 ms  (+10.0%)"));
  EXPECT_THAT(svg, HasSubstr(">50.0 ms<"));
}

/// Two ranks of a pipeline, one micro-batch: 10 us forward, then 20 us backward, on each; the
/// second begins when the first has ended its forward.
Trace of_stage(int rank, std::int64_t forward_us, std::int64_t backward_us,
               TraceKind kind = TraceKind::predicted) {
  Trace trace = samples::empty_trace(kind);
  trace.rank = rank;
  const auto add = [&](Phase phase, std::uint32_t id, std::int64_t begin_us, std::int64_t end_us) {
    Span& span = samples::add_span(trace, SpanClass::compute, 1, begin_us * 1000, end_us * 1000);
    span.operation = OperationId::of(id);
    span.step = 1;
    trace.facts.push_back({.operation = OperationId::of(id), .name = "op", .phase = phase});
  };
  add(Phase::forward, 0, forward_us, forward_us + 10);
  add(Phase::backward, 1, backward_us, backward_us + 20);
  return trace;
}

TEST(StagesFigure, NamesTheBubbleOfEachRank) {
  // Rank 0: forward at 0, backward at 40, so 30 of 60 us idle. Rank 1: 10 and 20: 30 of 60, too.
  const Trace first = of_stage(0, 0, 40), second = of_stage(1, 10, 20);
  const std::string svg =
      stages_figure({.predicted = {&first, &second}, .profiled = {}}, "A <title>");
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("A &lt;title&gt;"));
  EXPECT_THAT(svg, HasSubstr("nothing computes in 50.0% predicted"));
  EXPECT_EQ(count_of(svg, ">no compute 50.0%</text>"), 2U);
  EXPECT_EQ(count_of(svg, ">forward 0</title>"), 2U);
  EXPECT_EQ(count_of(svg, ">backward 0</title>"), 2U);
  EXPECT_THAT(svg, Not(HasSubstr("profiled")));
}

TEST(StagesFigure, ClocksOfProfiledRanksAreLaidOverEachOther) {
  const Trace first = of_stage(0, 0, 40, TraceKind::profiled);
  Trace second = of_stage(1, 0, 10, TraceKind::profiled);
  second.base_ns = first.base_ns + 10'000;  // the same times on a clock that began 10 us later
  const std::string svg =
      stages_figure({.predicted = {}, .profiled = {&first, &second}}, "profiled");
  EXPECT_THAT(svg, HasSubstr("nothing computes in 50.0% profiled"));
  EXPECT_EQ(count_of(svg, ">no compute 50.0%</text>"), 2U);
}

/// What another rank's earlier begin lets in of the step before is none of this one.
TEST(StagesFigure, DrawsOneStep) {
  const Trace first = of_stage(0, 0, 40);
  Trace second = of_stage(1, 10, 20);
  second.spans.front().step = 2;  // the forward
  const std::string svg = stages_figure({.predicted = {&first, &second}, .profiled = {}}, "one");
  EXPECT_EQ(count_of(svg, ">forward 0</title>"), 1U);
  EXPECT_EQ(count_of(svg, ">backward 0</title>"), 2U);
}

/// A forward that waits in its middle: 10 us, 20 us of nothing, 10 us.
TEST(StagesFigure, DrawsNothingWhereAChunkWaits) {
  Trace waiting = samples::empty_trace(TraceKind::predicted);
  for (std::uint32_t id = 0; id < 2; ++id) {
    const std::int64_t begin_ns = id * 30'000;
    Span& span = samples::add_span(waiting, SpanClass::compute, 1, begin_ns, begin_ns + 10'000);
    span.operation = OperationId::of(id);
    span.step = 1;
    waiting.facts.push_back(
        {.operation = OperationId::of(id), .name = "op", .phase = Phase::forward});
  }
  const std::string svg =
      stages_figure({.predicted = {&waiting, &waiting}, .profiled = {}}, "waits");
  EXPECT_EQ(count_of(svg, ">forward 0</title>"), 4U);
  EXPECT_EQ(count_of(svg, ">nothing computes</title>"), 2U);
}

TEST(StagesFigure, NeedsATrace) { EXPECT_THROW(stages_figure({}, "none"), Error); }

}  // namespace
}  // namespace shardscope

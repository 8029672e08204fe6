// Causes of differences, from traces of two steps whose figures are worked out on paper.
#include "traces/differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/traces/sample_traces.h"

namespace shardscope {
namespace {

using ::testing::HasSubstr;

/// Operations of a step by id; times in microseconds since its begin.
struct Piece {
  OperationKind kind;
  std::int64_t start_us, end_us;
  Bytes bytes = 1000000_B;
  Flops flops = {};
};

/// Tracks as in samples; compute on track 1, collectives on 2. Two steps, the second 1000 us later.
Trace trace_of(const std::vector<Piece>& pieces, TraceKind kind = TraceKind::profiled,
               int rank = 0) {
  Trace trace = samples::empty_trace(kind);
  trace.rank = rank;
  trace.recording.clock_residual = 0_us;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool is_collective = piece.kind != OperationKind::compute;
    trace.names.push_back((is_collective ? "gather." : "compute.") + std::to_string(i));
    OperationFacts facts{.operation = OperationId::of(i), .name = trace.names.back()};
    facts.kind = piece.kind;
    facts.bytes = piece.bytes;
    facts.flops = piece.flops;
    if (is_collective) facts.ranks = {0, 1};
    trace.facts.push_back(facts);
    for (int step = 1; step <= 2; ++step) {
      Span& span =
          samples::add_span(trace, is_collective ? SpanClass::communication : SpanClass::compute,
                            is_collective ? 2 : 1, (piece.start_us + 1000 * (step - 1)) * 1000,
                            (piece.end_us + 1000 * (step - 1)) * 1000);
      span.name = static_cast<std::uint32_t>(i);
      span.operation = OperationId::of(i);
      span.step = step;
    }
  }
  for (int step = 1; step <= 2; ++step) {
    trace.names.push_back("ProfilerStep#" + std::to_string(step));
    Span& span = samples::add_span(trace, SpanClass::annotation, 0, (step - 1) * 1000000,
                                   (step - 1) * 1000000 + 900000);
    span.name = static_cast<std::uint32_t>(trace.names.size() - 1);
    span.step = step;
  }
  return trace;
}

constexpr OperationKind compute = OperationKind::compute;
constexpr OperationKind gather = OperationKind::all_gather;

/// The cause of the largest difference.
OperationDifference largest(const std::vector<Piece>& predicted,
                            const std::vector<Trace>& profiled) {
  const Trace plan = trace_of(predicted, TraceKind::predicted);
  const Differences differences = find_differences(&plan, profiled);
  EXPECT_FALSE(differences.largest.empty());
  return differences.largest.empty() ? OperationDifference{} : differences.largest.front();
}

TEST(Differences, RanksByTimeWithTheGapBeforeIt) {
  // compute.0 takes 5 us more; compute.1 takes 10 less, but begins 30 after compute.0 ended, not 0.
  const auto one = largest({{compute, 0, 100}, {compute, 100, 200}},
                           {trace_of({{compute, 0, 105}, {compute, 135, 225}})});
  EXPECT_EQ(one.name, "compute.1");
  EXPECT_EQ(one.difference(), 0_us - 20_us) << "predicted - profiled";
  EXPECT_EQ(one.gap.profiled.value, 30_us);
  EXPECT_EQ(one.duration.profiled.value, 90_us);
}

TEST(Differences, CountWhatIsOnlyOnOneSide) {
  const Trace plan = trace_of({{compute, 0, 100}}, TraceKind::predicted);
  const std::vector<Trace> real{
      trace_of({{compute, 0, 105}, {compute, 135, 225}, {compute, 225, 226}})};
  const Differences more = find_differences(&plan, real);
  EXPECT_EQ(more.only_predicted, 0u);
  EXPECT_EQ(more.only_profiled, 2u);
  EXPECT_THAT(to_text(more), HasSubstr("  0 operations were only predicted, 2 only profiled\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(more))["only_profiled"], 2);
  const Differences fewer = find_differences(&real[0], {{plan}});
  EXPECT_EQ(fewer.only_predicted, 2u);
}

TEST(Differences, SayWhoseOperationsTheyAre) {
  const Trace plan = trace_of({{compute, 0, 100}, {compute, 100, 110}}, TraceKind::predicted);
  const std::vector<Trace> real{
      trace_of({{compute, 0, 105}, {compute, 105, 115}}, TraceKind::profiled, 3)};
  const std::string text = to_text(find_differences(&plan, real));
  EXPECT_THAT(text, HasSubstr("largest differences of rank 3's 2 operations"));
  EXPECT_THAT(text, HasSubstr("predicted - profiled"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("only profiled")));
}

/// Three steps, in the first of which the collective takes 500 us longer.
Trace with_a_slow_first_step(Trace trace) {
  const std::vector<Span> spans = trace.spans;
  for (Span span : spans) {
    if (span.step != 2) continue;
    span.start += 1000_us;
    span.step = 3;
    if (span.span_class == SpanClass::annotation) {
      span.name = static_cast<std::uint32_t>(trace.names.size());
      trace.names.push_back("ProfilerStep#3");
    }
    trace.spans.push_back(span);
  }
  for (Span& span : trace.spans)
    if (span.step == 1 && span.span_class == SpanClass::communication) span.duration += 500_us;
  return trace;
}

TEST(Differences, ASlowFirstStepIsNotTheTypicalOne) {
  const std::vector<Piece> pieces{{compute, 0, 100}, {gather, 100, 130}};
  const Trace plan = trace_of(pieces, TraceKind::predicted);
  const std::vector<Trace> real{with_a_slow_first_step(trace_of(pieces))};
  EXPECT_EQ(find_differences(&plan, real).exposed_communication.profiled.value, 30_us);
}

TEST(Differences, MeanOverRanksOfWhatIsExposed) {
  const std::vector<Piece> planned{{compute, 0, 100}, {gather, 100, 130}};
  const std::vector<Piece> waits{{compute, 0, 80}, {gather, 80, 150}};
  const std::vector<Piece> is_late{{compute, 0, 140}, {gather, 140, 150}};
  const Trace plan = trace_of(planned, TraceKind::predicted);
  const std::vector<Trace> real{trace_of(waits, TraceKind::profiled, 0),
                                trace_of(is_late, TraceKind::profiled, 1)};
  const Differences differences = find_differences(&plan, real);
  EXPECT_EQ(differences.exposed_communication.predicted.value, 30_us);
  EXPECT_EQ(differences.exposed_communication.profiled.value, 40_us);
  EXPECT_THAT(to_text(differences),
              HasSubstr("exposed communication of a step: 30.0 us predicted, 40.0 us profiled"));
  const auto json = nlohmann::json::parse(to_json(differences))["exposed_communication"];
  EXPECT_EQ(json["predicted_ns"], 30'000);
  EXPECT_EQ(json["profiled_ns"], 40'000);
}

TEST(Differences, OfAHostHaveOneClock) {
  Trace trace = trace_of({{compute, 0, 100}});
  trace.recording.clock = "the host's";
  EXPECT_THAT(to_text(find_differences(nullptr, {{trace}})),
              HasSubstr("clocks: the host's, one clock\n"));
  trace.recording.clock_residual = 3_us;
  EXPECT_THAT(to_text(find_differences(nullptr, {{trace}})),
              HasSubstr("clocks: the host's, within 3.00 us\n"));
}

TEST(Differences, SayWhichTracesAreMissing) {
  const std::vector<Trace> real{trace_of({{compute, 0, 100}})};
  Differences differences = find_differences(nullptr, real);
  differences.missing = {{.rank = 1, .reason = "its disk is full"}};
  EXPECT_THAT(to_text(differences), HasSubstr("  no trace of rank 1: its disk is full\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(differences))["missing"],
            nlohmann::json::parse(R"([{"rank": 1, "reason": "its disk is full"}])"));
}

TEST(Differences, CountsTheGapFromTheStepsBegin) {
  const auto one = largest({{compute, 0, 100}}, {trace_of({{compute, 40, 140}})});
  EXPECT_EQ(one.difference(), 0_us - 40_us);
}

TEST(Differences, ShowsFiveAtMostAndNoneThatAgrees) {
  std::vector<Piece> plan, real;
  for (int i = 0; i < 7; ++i) {
    plan.push_back({compute, i * 100, i * 100 + 50});
    real.push_back({compute, i * 100, i * 100 + 50 + i});
  }
  const Trace predicted = trace_of(plan, TraceKind::predicted);
  const std::vector<Trace> profiled{trace_of(real)};
  const Differences differences = find_differences(&predicted, profiled);
  EXPECT_EQ(differences.operations.size(), 7u);
  EXPECT_EQ(differences.largest.size(), 5u);
  EXPECT_TRUE(find_differences(&profiled[0], profiled).largest.empty());
}

TEST(DifferenceCauses, AnotherSizeExplainsItFirst) {
  const auto one =
      largest({{compute, 0, 100, 1000000_B}}, {trace_of({{compute, 0, 200, 2000000_B}})});
  EXPECT_EQ(one.cause.kind, DifferenceCause::size);
}

TEST(DifferenceCauses, ACollectiveIsLongBecauseARankCameLate) {
  // Rank 1 begins at 85 us of a trace that begins 5 us earlier than this one's.
  const std::vector<Piece> plan{{gather, 0, 20}};
  Trace late = trace_of({{gather, 85, 105}}, TraceKind::profiled, 1);
  late.base_ns -= 5000;
  const auto one = largest(plan, {trace_of({{gather, 0, 100}}), late});
  EXPECT_EQ(one.cause.kind, DifferenceCause::late_peer);
  EXPECT_EQ(one.cause.rank, 1);
  EXPECT_THAT(one.cause.reason, HasSubstr("80.0 us"));
}

TEST(DifferenceCauses, AMeasuredWaitGoesBeforeTheTraces) {
  Trace own = trace_of({{gather, 0, 100}});
  own.measures = {"waiting_ns", "last_rank"};
  own.span_measures = {{0, 0, 70000}, {0, 1, 3}, {1, 0, 70000}, {1, 1, 3}};
  const auto one = largest({{gather, 0, 20}}, {own});
  EXPECT_EQ(one.cause.kind, DifferenceCause::late_peer);
  EXPECT_EQ(one.cause.rank, 3);
}

TEST(DifferenceCauses, NoRankIsLateWithinWhatClocksMayBeOff) {
  Trace late = trace_of({{gather, 85, 105}}, TraceKind::profiled, 1);
  late.recording.clock_residual = 90_us;
  const auto one = largest({{gather, 0, 20}}, {trace_of({{gather, 0, 100}}), late});
  EXPECT_EQ(one.cause.kind, DifferenceCause::bandwidth);
}

TEST(DifferenceCauses, NoRankIsLateOnAClockOfItsOwn) {
  Trace late = trace_of({{gather, 85, 105}}, TraceKind::profiled, 1);
  late.recording.clock_residual.reset();
  const auto one = largest({{gather, 0, 20}}, {trace_of({{gather, 0, 100}}), late});
  EXPECT_EQ(one.cause.kind, DifferenceCause::bandwidth);
}

TEST(DifferenceCauses, BandwidthIsSaidOnBothSides) {
  // 1 MB in 50 us are 20 GB/s; in 20 us, 50.
  const auto one = largest({{gather, 0, 20}}, {trace_of({{gather, 0, 50}})});
  EXPECT_EQ(one.cause.kind, DifferenceCause::bandwidth);
  EXPECT_THAT(one.cause.reason, HasSubstr("20.0 GB/s, and 50.0 GB/s were predicted"));
}

TEST(DifferenceCauses, ProductsHaveARateOfArithmetic) {
  // 100 flops a byte.
  const Piece plan{compute, 0, 20, 1000000_B, {100000000}};
  const Piece real{compute, 0, 50, 1000000_B, {100000000}};
  EXPECT_EQ(largest({plan}, {trace_of({real})}).cause.kind, DifferenceCause::arithmetic);
}

TEST(DifferenceCauses, ComputeThatBeginsLateWaitedForACollective) {
  const auto one = largest({{gather, 0, 10}, {compute, 10, 50}},
                           {trace_of({{gather, 0, 90}, {compute, 90, 130}})});
  // Both differ by 80 us; the collective is named where compute waits for it.
  const Trace plan = trace_of({{gather, 0, 10}, {compute, 10, 50}}, TraceKind::predicted);
  const std::vector<Trace> real{trace_of({{gather, 0, 90}, {compute, 90, 130}})};
  const Differences differences = find_differences(&plan, real);
  ASSERT_EQ(differences.largest.size(), 2u);
  EXPECT_EQ(one.name, "gather.0");
  EXPECT_EQ(differences.largest[1].cause.kind, DifferenceCause::queued);
  EXPECT_THAT(differences.largest[1].cause.reason, HasSubstr("gather.0"));
}

TEST(DifferenceCauses, OrForTheRankThatTheCollectiveWaitedFor) {
  const Trace plan = trace_of({{gather, 0, 10}, {compute, 10, 50}}, TraceKind::predicted);
  const std::vector<Trace> real{
      trace_of({{gather, 0, 90}, {compute, 90, 130}}),
      trace_of({{gather, 80, 90}, {compute, 90, 130}}, TraceKind::profiled, 1)};
  const Differences differences = find_differences(&plan, real);
  ASSERT_EQ(differences.largest.size(), 2u);
  EXPECT_EQ(differences.largest[1].cause.kind, DifferenceCause::late_peer);
  EXPECT_EQ(differences.largest[1].cause.rank, 1);
}

TEST(DifferenceCauses, WhereNothingRanTheHostWasLate) {
  const auto one = largest({{compute, 0, 50}}, {trace_of({{compute, 40, 90}})});
  EXPECT_EQ(one.cause.kind, DifferenceCause::host);
}

TEST(DifferenceCauses, ComputeBesideACollectiveThatWasNotToBeThere) {
  const auto one = largest({{compute, 0, 50}, {gather, 100, 180}},
                           {trace_of({{compute, 0, 100}, {gather, 20, 100}})});
  EXPECT_EQ(one.name, "compute.0");
  EXPECT_EQ(one.cause.kind, DifferenceCause::contention);
  EXPECT_THAT(one.cause.reason, HasSubstr("gather.1 for 80.0 us"));
}

TEST(DifferenceCauses, AThreadThatWasNotOnAProcessor) {
  Trace own = trace_of({{compute, 0, 100}});
  own.measures = {"processor_ns"};
  own.span_measures = {{0, 0, 50000}, {1, 0, 50000}};
  EXPECT_EQ(largest({{compute, 0, 50}}, {own}).cause.kind, DifferenceCause::processor);
}

TEST(DifferenceCauses, ALowerClock) {
  // 3 cycles a nanosecond in four runs, 1.5 in the two that are compared.
  const std::vector<Piece> plan{{compute, 0, 50}, {compute, 50, 100}, {compute, 100, 150}};
  Trace own = trace_of({{compute, 0, 50}, {compute, 50, 100}, {compute, 100, 200}});
  own.measures = {"cycles"};
  own.span_measures = {{0, 0, 150000}, {1, 0, 150000}, {2, 0, 150000},
                       {3, 0, 150000}, {4, 0, 150000}, {5, 0, 150000}};
  EXPECT_EQ(largest(plan, {own}).cause.kind, DifferenceCause::processor);
}

/// One operation in two steps with nearly the same instructions; the first, of 90 us, stands for
/// both.
Trace counted(std::int64_t cycles_of_other) {
  Trace trace = trace_of({{compute, 0, 100}});
  trace.spans[0].duration = 90_us;
  trace.measures = {"cycles", "instructions"};
  trace.span_measures = {{0, 0, 300000}, {0, 1, 500000}, {1, 0, cycles_of_other}, {1, 1, 501000}};
  return trace;
}

TEST(DifferenceCauses, TheSameInstructionsTookMoreCycles) {
  // 300,000 cycles against 200,000 in the other step.
  const auto one = largest({{compute, 0, 50}}, {counted(200000)});
  EXPECT_EQ(one.cause.kind, DifferenceCause::processor);
  EXPECT_THAT(one.cause.reason, HasSubstr("1.50 times the cycles"));
  EXPECT_EQ(largest({{compute, 0, 50}}, {counted(290000)}).cause.kind, DifferenceCause::bandwidth);
}

TEST(DifferenceCauses, WhatNoRuleExplainsIsUnknown) {
  const auto one = largest({{compute, 0, 50, 0_B}}, {trace_of({{compute, 0, 100, 0_B}})});
  EXPECT_EQ(one.cause.kind, DifferenceCause::unknown);
}

TEST(Differences, EachRanksTimeSums) {
  const std::vector<Trace> real{samples::two_steps()};
  const Differences differences = find_differences(nullptr, real);
  ASSERT_EQ(differences.ranks.size(), 1u);
  const Accounting& time = differences.ranks[0].time;
  // Two of samples' steps: 60 + 35 + 5 + 0 each.
  EXPECT_EQ(time.span, 200_us);
  EXPECT_EQ(time.compute, 120_us);
  EXPECT_EQ(time.exposed_communication, 70_us);
  EXPECT_EQ(time.exposed_copy, 10_us);
  EXPECT_EQ(time.idle, 0_us);
}

TEST(Differences, TextAndJsonSayTheSame) {
  const Trace plan = trace_of({{gather, 0, 20}}, TraceKind::predicted);
  const std::vector<Trace> real{trace_of({{gather, 0, 50}})};
  const Differences differences = find_differences(&plan, real);
  const std::string text = to_text(differences);
  EXPECT_THAT(text, HasSubstr("gather.0"));
  EXPECT_THAT(text, HasSubstr("-30.0 us"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 20.0 GB/s"));
  const auto json = nlohmann::json::parse(to_json(differences));
  EXPECT_EQ(json["schema"], "shardscope.comparison/1");
  EXPECT_EQ(json["largest"][0]["difference_ns"], -30000);
  EXPECT_EQ(json["largest"][0]["cause"], "bandwidth");
  EXPECT_EQ(json["operations"][0]["profiled_ns"], 50000);
}

TEST(Differences, ShowWhoWaitedAndWhoHeldMemory) {
  // The gather of 40 us in each of two steps: 30 us of it waiting for rank 1.
  Trace trace = trace_of({{compute, 0, 10}, {gather, 10, 50}});
  trace.measures = {"waiting_ns", "last_rank"};
  for (std::uint32_t span = 0; span < trace.spans.size(); ++span) {
    if (trace.spans[span].span_class != SpanClass::communication) continue;
    trace.span_measures.push_back({span, 0, 30'000});
    trace.span_measures.push_back({span, 1, 1});
  }
  trace.recording.memory = {
      {.owner = "arena", .planned = 4_MiB, .held = 3_MiB},
      {.owner = "kernels", .place = MemoryHolder::Place::device, .held = 0_B}};
  trace.recording.notes = {"no cycles here"};
  CategoryBytes live;
  live[MemoryCategory::gradients] = 2_MiB;
  trace.memory = {{.time = 5_us, .operation = {}, .live = live}};
  const Differences differences = find_differences(nullptr, {{trace}});
  const std::string text = to_text(differences);
  EXPECT_THAT(text, HasSubstr("gradients, at the peak"));
  EXPECT_THAT(text, HasSubstr("  no cycles here\n"));
  EXPECT_THAT(text, HasSubstr("60.0 us     20.0 us"));  // waiting, moving
  EXPECT_THAT(text, HasSubstr("rank 1 2 times"));
  EXPECT_THAT(text, HasSubstr("host    4.00 MiB  3.00 MiB                 arena"));
  const auto json = nlohmann::json::parse(to_json(differences));
  EXPECT_EQ(json["ranks"][0]["waits"]["waiting_ns"], 60'000);
  EXPECT_EQ(json["ranks"][0]["waits"]["last"],
            nlohmann::json::parse(R"([{"rank": 1, "times": 2}])"));
  EXPECT_EQ(json["at_peak"]["gradients_bytes"], 2 << 20);
  EXPECT_EQ(json["at_peak"]["activations_bytes"], 0);
  // A figure that cannot be had is absent, not zero.
  EXPECT_EQ(json["recording"]["memory"], nlohmann::json::parse(R"([
    {"owner": "arena", "place": "host", "planned_bytes": 4194304, "held_bytes": 3145728},
    {"owner": "kernels", "place": "device", "held_bytes": 0}])"));
}

TEST(Differences, WithoutAPredictionSaysSo) {
  const std::vector<Trace> real{samples::two_steps()};
  const Differences differences = find_differences(nullptr, real);
  EXPECT_THAT(to_text(differences), HasSubstr("nothing was predicted"));
  EXPECT_TRUE(nlohmann::json::parse(to_json(differences))["step_time"]["predicted_ns"].is_null());
}

}  // namespace
}  // namespace shardscope

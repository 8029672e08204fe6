#include "gui/diagnostics/identities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "gui/diagnostics/diagnosis.h"

namespace shardscope::gui {
namespace {

using ::testing::HasSubstr;

/// Compute [0, 60), a collective [40, 90), a copy [80, 95), and the step ends at 100:
/// 60 + 30 + 5 + 5, overlap 20.
Trace small_step() {
  Trace trace;
  trace.world = 2;
  trace.names = {"forward", "all_gather", "copy"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute},
                  {.name = "unshard", .stream = Stream::unshard},
                  {.name = "copy", .stream = Stream::copy}};
  trace.spans = {
      {.start = {0}, .duration = {60}, .name = 0, .track = 0, .operation = {0}, .step = 1},
      {.start = {40},
       .duration = {50},
       .name = 1,
       .track = 1,
       .span_class = SpanClass::communication,
       .operation = {1},
       .step = 1},
      {.start = {80},
       .duration = {15},
       .name = 2,
       .track = 2,
       .span_class = SpanClass::copy,
       .operation = {2},
       .step = 1}};
  trace.facts = {{.operation = {0}, .name = "forward"},
                 {.operation = {1},
                  .name = "all_gather",
                  .kind = OperationKind::all_gather,
                  .bytes = {800},
                  .ranks = Ranks({0, 1}),
                  .elements_in = 100,
                  .elements_out = 200},
                 {.operation = {2}, .name = "copy", .kind = OperationKind::copy}};
  return trace;
}

constexpr TimeWindow step{.begin = {0}, .end = {100}};
const Accounting right{.span = {100},
                       .compute = {60},
                       .exposed_communication = {30},
                       .exposed_copy = {5},
                       .idle = {5},
                       .communication = {50},
                       .overlap = {20}};

TEST(Identities, TheFourPartsOfASpanSum) {
  EXPECT_EQ(times_sum(right, "").severity, Severity::holds);
  Accounting wrong = right;
  wrong.idle = {6};
  const Finding finding = times_sum(wrong, "rank 0");
  EXPECT_EQ(finding.severity, Severity::broken);
  EXPECT_THAT(finding.what, HasSubstr("differ by -1 ns"));
}

TEST(Identities, TimesAreThoseOfTheSpans) {
  EXPECT_EQ(times_are_those_of(small_step(), step, right, "").severity, Severity::holds);
}

// Communication that counts in full though compute hides some of it; the sum would still be right.
TEST(Identities, HiddenCommunicationIsNotExposed) {
  Accounting wrong = right;
  wrong.exposed_communication = {50};
  wrong.compute = {40};
  EXPECT_EQ(times_sum(wrong, "").severity, Severity::holds);
  EXPECT_EQ(times_are_those_of(small_step(), step, wrong, "").severity, Severity::broken);
}

/// 4096 B of parameters all the time, 512 B of activations while operations 0 and 1 run.
const std::vector<PredictedBuffer> two_buffers{
    {.name = "shard", .category = MemoryCategory::parameters, .bytes = {4096}},
    {.name = "out",
     .category = MemoryCategory::activations,
     .bytes = {512},
     .allocated_by = {0},
     .freed_by = {1}}};

Trace with_memory(const std::vector<std::pair<int, std::int64_t>>& activations) {
  Trace trace = small_step();
  for (const auto& [operation, bytes] : activations) {
    MemorySample sample{.time = {operation * 40}};
    if (operation < 3) sample.operation = {static_cast<std::uint32_t>(operation)};
    sample.live[MemoryCategory::parameters] = {4096};
    sample.live[MemoryCategory::activations] = {bytes};
    trace.memory.push_back(sample);
  }
  return trace;
}

TEST(Identities, LiveBytesAreTheBuffersThatAreAlive) {
  const Trace trace = with_memory({{0, 512}, {1, 512}, {2, 0}, {3, 0}});
  EXPECT_EQ(live_bytes_are_buffers(trace, two_buffers, "").severity, Severity::holds);
}

// A buffer is freed when its last operation has ended, and not when that begins.
TEST(Identities, ABufferLivesAsLongAsItsLastOperation) {
  const Finding finding =
      live_bytes_are_buffers(with_memory({{0, 512}, {1, 0}, {2, 0}}), two_buffers, "");
  EXPECT_EQ(finding.severity, Severity::broken);
  EXPECT_THAT(finding.what, HasSubstr("off by 512 B (activations at all_gather)"));
}

TEST(Identities, WhatIsCountedInAnotherCategoryIsFound) {
  Trace trace = with_memory({{0, 512}});
  trace.memory[0].live[MemoryCategory::parameters] = {4096 + 512};
  trace.memory[0].live[MemoryCategory::activations] = {};
  EXPECT_EQ(live_bytes_are_buffers(trace, two_buffers, "").severity, Severity::broken);
}

TEST(Identities, CollectivesOfAStepAreEqualOnBothSides) {
  const CollectiveBytes sum = collective_bytes(small_step(), step);
  EXPECT_EQ(sum, (CollectiveBytes{.times = 1, .bytes = {800}}));
  EXPECT_EQ(collectives_are_equal(sum, sum, "").severity, Severity::holds);
  const Finding finding = collectives_are_equal(sum, {.times = 1, .bytes = {700}}, "");
  EXPECT_EQ(finding.severity, Severity::broken);
  EXPECT_THAT(finding.what, HasSubstr("off by 100 B"));
}

// One that begins in the next step is that step's.
TEST(Identities, OnlyCollectivesThatBeginInTheStepCount) {
  EXPECT_EQ(collective_bytes(small_step(), {.begin = {0}, .end = {40}}).times, 0);
}

TEST(Identities, AGatherGivesWhatItsRanksHave) {
  EXPECT_EQ(gathers_are_whole(small_step(), "").severity, Severity::holds);
  Trace trace = small_step();
  trace.facts[1].elements_out = 199;
  const Finding finding = gathers_are_whole(trace, "");
  EXPECT_EQ(finding.severity, Severity::broken);
  EXPECT_THAT(finding.what, HasSubstr("2 ranks of 100 elements give 199"));
}

TEST(Identities, LiveBytesOfAnOperationAreEqualOnBothSides) {
  const Trace plan = with_memory({{0, 512}, {1, 512}});
  EXPECT_EQ(live_bytes_are_equal(plan, with_memory({{0, 512}, {1, 512}}), "").value().severity,
            Severity::holds);
  const Finding finding = live_bytes_are_equal(plan, with_memory({{0, 512}, {1, 500}}), "").value();
  EXPECT_EQ(finding.severity, Severity::broken);
  EXPECT_THAT(finding.what, HasSubstr("off by 12 B at all_gather"));
}

// Nothing was compared, so nothing holds.
TEST(Identities, WithoutACommonOperationThereIsNothingToTellOfLiveBytes) {
  EXPECT_EQ(live_bytes_are_equal(with_memory({{0, 512}}), with_memory({{1, 512}}), ""),
            std::nullopt);
  EXPECT_EQ(live_bytes_are_equal(with_memory({{0, 512}}), small_step(), ""), std::nullopt);
}

TEST(Identities, TheWorstOfSeveralDifferencesIsNamed) {
  const Finding finding =
      live_bytes_are_buffers(with_memory({{0, 500}, {1, 400}, {2, 10}}), two_buffers, "");
  EXPECT_THAT(finding.what, HasSubstr("off by 112 B (activations at all_gather)"));
  EXPECT_THAT(live_bytes_are_buffers(with_memory({{0, 512}, {3, 7}}), two_buffers, "").what,
              HasSubstr("off by 7 B (activations at rest)"));
}

TEST(Identities, LiveBytesOfANativeRunAreThePredictedBuffers) {
  Scenario scenario;
  scenario.predicted = Side{.kind = SideKind::predicted};
  scenario.predicted->summary = Summary{.runtime = "native"};
  scenario.predicted->buffers = two_buffers;
  scenario.predicted->ranks = {std::make_shared<const Trace>(with_memory({{0, 512}, {1, 512}}))};
  scenario.profiled = Side{.kind = SideKind::profiled};
  scenario.profiled->ranks = {std::make_shared<const Trace>(with_memory({{0, 512}, {1, 500}}))};
  const auto is_broken = [](const Finding& finding) {
    return finding.severity == Severity::broken && finding.where == "profiled, rank 0" &&
           finding.what.find("sum of the 2 buffers") != std::string::npos &&
           finding.what.find("off by 12 B (activations at all_gather)") != std::string::npos;
  };
  const std::vector<Finding> findings = identities_of(scenario);
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(), is_broken), 1);
}

TEST(Identities, ParametersOfARankAreItsShards) {
  EXPECT_EQ(parameters_are_shards({4096}, two_buffers, 2, "").severity, Severity::holds);
  EXPECT_EQ(parameters_are_shards({8192}, two_buffers, 2, "").severity, Severity::broken);
}

TEST(Diagnosis, TellsTheIdentitiesThatDoNotHold) {
  const std::vector<Finding> findings{{Severity::holds, "", "a"},
                                      {Severity::holds, "", "b"},
                                      {Severity::broken, "", "c"},
                                      {Severity::warning, "", "d"}};
  EXPECT_EQ(summary_text(findings), "2 consistency checks passed, 1 failed; 1 warning");
  EXPECT_EQ(summary_text({{Severity::holds, "", "a"}}), "1 consistency check passed");
}

TEST(Diagnosis, OfARecordingNamesClocksAndLosses) {
  Scenario scenario;
  Trace trace = small_step();
  trace.recording = {.clock = "one host's", .clock_residual = Duration{2000}, .dropped_records = 3};
  scenario.profiled = Side{.kind = SideKind::profiled};
  scenario.profiled->ranks = {std::make_shared<const Trace>(trace)};
  const std::vector<Finding> findings = diagnosis_of(scenario);
  EXPECT_EQ(findings.front().severity, Severity::warning);
  EXPECT_THAT(findings.front().what, HasSubstr("3 records were dropped"));
  EXPECT_THAT(plain_text("x", findings), HasSubstr("may be off by 2.00 us"));
}

}  // namespace
}  // namespace shardscope::gui

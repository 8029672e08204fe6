#include "gui/data/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gui/data/verdict_memory.h"
#include "gui/data/verdict_time.h"

namespace shardscope::gui {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr MemoryCategory p = MemoryCategory::parameters;
constexpr MemoryCategory os = MemoryCategory::optimizer_states;
constexpr MemoryCategory activations = MemoryCategory::activations;

/// 100 ms, of which compute 96, exposed communication 2 and idle 2; 1000 MiB: P 250, OS 500,
/// activations 250; 10 collectives of 100 MiB together, 4 ms long.
SideFigures plain_figures() {
  SideFigures figures{.step = 100_ms,
                      .time = {.span = 100_ms,
                               .compute = 96_ms,
                               .exposed_communication = 2_ms,
                               .idle = 2_ms,
                               .communication = 4_ms,
                               .overlap = 2_ms},
                      .peak = 1000_MiB,
                      .traffic = StepTraffic{.collectives = 10, .bytes = 100_MiB}};
  figures.at_peak[p] = 250_MiB;
  figures.at_peak[os] = 500_MiB;
  figures.at_peak[activations] = 250_MiB;
  return figures;
}

/// 590 MiB: OS are halved, P less 160 MiB; 106 ms, of which exposed communication 8, of 20.
SideFigures sharded_figures() {
  SideFigures figures = plain_figures();
  figures.step = figures.time.span = 106_ms;
  figures.time.exposed_communication = 8_ms;
  figures.time.communication = 20_ms;
  figures.time.overlap = 12_ms;
  figures.peak = 590_MiB;
  figures.at_peak[p] = 90_MiB;
  figures.at_peak[os] = 250_MiB;
  figures.traffic = StepTraffic{.collectives = 42, .bytes = 150_MiB};
  return figures;
}

StrategyRow row(const std::string& strategy, const SideFigures& figures) {
  return {.label = strategy + " x2", .strategy = strategy, .world = 2, .profiled = figures};
}

TEST(Verdict, SavesMemoryAndCostsTimeForReasonsInTheFigures) {
  const Verdict verdict =
      compared(row("no_shard", plain_figures()), row("full_shard", sharded_figures()));
  // 410 of 1000 MiB, 6 of 100 ms; 500 MiB are 2 times 250, and 250 are not n times 90.
  EXPECT_EQ(verdict.sentence,
            "FULL_SHARD saves 41% of memory and costs 6% of time here, because optimizer states "
            "shrink by 250 MiB (to 1/2, a shard of 2 ranks), parameters by 160 MiB; and 32 more "
            "collectives a step (50.0 MiB more) leave 6.00 ms more communication exposed.");
  EXPECT_THAT(verdict.reasons,
              Contains("Peak 1000 MiB -> 590 MiB: optimizer states -250 MiB, parameters -160 MiB"));
  EXPECT_THAT(verdict.reasons, Contains("Step 100 ms -> 106 ms: exposed communication +6.00 ms"));
  EXPECT_THAT(
      verdict.reasons,
      Contains("Communication of a step: 42 collectives of 150 MiB together, 20.0 ms long, "
               "60% hidden behind compute, 8.00 ms exposed; before: 10 collectives of 100 MiB "
               "together, 4.00 ms long, 50% hidden behind compute, 2.00 ms exposed"));
  EXPECT_THAT(verdict.reasons, Contains("From profiled figures, against no_shard x2"));
}

TEST(Verdict, TheOtherWayRoundIsAGainOfTimeForMemory) {
  const Verdict verdict =
      compared(row("full_shard", sharded_figures()), row("no_shard", plain_figures()));
  // 6 of 106 ms, 410 of 590 MiB.
  EXPECT_THAT(
      verdict.sentence,
      StartsWith("NO_SHARD saves 5.7% of time and costs 69% more memory here, because "
                 "optimizer states grow by 250 MiB, parameters by 160 MiB; and 6.00 ms less "
                 "communication is exposed"));
}

TEST(Verdict, TimesWithinTheSpreadOfStepsAreTheSame) {
  SideFigures noisy = sharded_figures();
  noisy.spread_share = 0.07;
  const Verdict verdict = compared(row("no_shard", plain_figures()), row("full_shard", noisy));
  EXPECT_THAT(verdict.sentence,
              StartsWith("FULL_SHARD saves 41% of memory in the same time (within 7%) here"));
  // 12 of 20 ms.
  EXPECT_THAT(verdict.sentence,
              EndsWith("; and 32 more collectives a step (50.0 MiB more) cost little: 60% of its "
                       "20.0 ms of communication hide behind compute."));
  EXPECT_THAT(verdict.reasons, Contains(EndsWith("steps differ by up to \u00b17%")));
}

TEST(Verdict, SavesBoth) {
  SideFigures better = sharded_figures();
  better.step = better.time.span = 90_ms;
  better.time.compute = 80_ms;
  better.time.exposed_communication = 8_ms;
  const Verdict verdict = compared(row("no_shard", plain_figures()), row("full_shard", better));
  EXPECT_THAT(verdict.sentence, StartsWith("FULL_SHARD saves 41% of memory and 10% of time here"));
  EXPECT_THAT(verdict.sentence, EndsWith("; and compute takes 16.0 ms less."));
}

TEST(Verdict, CostsBoth) {
  SideFigures worse = plain_figures();
  worse.peak = 1200_MiB;
  worse.at_peak[activations] = 450_MiB;
  worse.step = worse.time.span = 120_ms;
  worse.time.idle = 22_ms;
  const Verdict verdict = compared(row("no_shard", plain_figures()), row("ddp", worse));
  EXPECT_EQ(verdict.sentence,
            "DDP costs 20% more memory and 20% of time here, because activations grow by 200 MiB; "
            "and the device is idle for 20.0 ms more.");
}

TEST(Verdict, NoDifferenceIsSaidToBeNone) {
  const Verdict verdict =
      compared(row("zero1", plain_figures()), row("shard_grad_op", plain_figures()));
  EXPECT_EQ(verdict.sentence,
            "SHARD_GRAD_OP makes no difference here: the same memory to the byte and the same time "
            "(within 0.5%).");
}

TEST(Verdict, TheSameMemoryAtAnotherTime) {
  SideFigures slower = plain_figures();
  slower.step = slower.time.span = 110_ms;
  slower.time.compute = 106_ms;
  slower.peak = Bytes{plain_figures().peak->count + 8};
  const Verdict verdict = compared(row("a", plain_figures()), row("b", slower));
  EXPECT_EQ(
      verdict.sentence,
      "B costs 10% of time here with the same memory (within 0.1%), because compute takes 10.0 "
      "ms longer.");
}

TEST(Verdict, WithoutMemoryItSpeaksOfTimeOnly) {
  SideFigures before = plain_figures(), after = sharded_figures();
  before.peak.reset();
  EXPECT_THAT(compared(row("a", before), row("b", after)).sentence,
              StartsWith("B costs 6% of time here, because "));
}

TEST(Verdict, CategoriesThatOneSideDoesNotKnowAreNoReason) {
  SideFigures after = sharded_figures();
  after.at_peak = {};
  const Verdict verdict = compared(row("a", plain_figures()), row("b", after));
  EXPECT_THAT(verdict.sentence, StartsWith("B saves 41% of memory and costs 6% of time here, "
                                           "because 32 more collectives"));
  EXPECT_THAT(verdict.reasons, Contains("Peak 1000 MiB -> 590 MiB"));
}

TEST(Verdict, ProfiledFiguresGoBeforePredictedOnesAndTheForecastIsTold) {
  StrategyRow before = row("no_shard", plain_figures());
  StrategyRow after = row("full_shard", sharded_figures());
  before.predicted = after.predicted = plain_figures();
  after.predicted->peak = 500_MiB;
  const Verdict verdict = compared(before, after);
  EXPECT_THAT(verdict.sentence, StartsWith("FULL_SHARD saves 41%"));
  EXPECT_THAT(verdict.reasons, Contains("From profiled figures, against no_shard x2; predicted "
                                        "was: FULL_SHARD saves 50% of memory in the same "
                                        "time (within 0.5%) here"));
}

TEST(Verdict, WhereOneIsOnlyPredictedThePredictionsAreCompared) {
  StrategyRow before = row("no_shard", plain_figures());
  before.predicted = plain_figures();
  StrategyRow after = row("full_shard", sharded_figures());
  after.predicted = std::exchange(after.profiled, std::nullopt);
  const Verdict verdict = compared(before, after);
  EXPECT_THAT(verdict.reasons, Contains("From predicted figures, against no_shard x2"));
}

TEST(Verdict, FiguresOfUnlikeKindsAreNotCompared) {
  StrategyRow after = row("full_shard", sharded_figures());
  after.predicted = std::exchange(after.profiled, std::nullopt);
  EXPECT_THAT(compared(row("no_shard", plain_figures()), after).sentence,
              HasSubstr("cannot be compared"));
}

TEST(Verdict, StepsOfOtherBatchesAreJudgedPerToken) {
  StrategyRow before = row("no_shard", plain_figures());
  StrategyRow after = row("full_shard", sharded_figures());
  // 1000 tokens in 100 ms, and 1060 in 106 ms; then half as many.
  before.profiled->tokens_per_s = 10'000;
  after.profiled->tokens_per_s = 10'000 / 1.06;
  EXPECT_THAT(compared(before, after).sentence, StartsWith("FULL_SHARD saves"));
  // 500 tokens in 106 ms are 212 ms for 1000: 112% more. Of them compute is 192 ms, 96 ms longer,
  // and exposed communication 16, 14 ms longer, which is less than a fifth of the 112.
  after.profiled->tokens_per_s = 5000 / 1.06;
  const Verdict verdict = compared(before, after);
  EXPECT_THAT(verdict.sentence,
              StartsWith("FULL_SHARD saves 41% of memory and costs 112% of time per token here"));
  EXPECT_THAT(verdict.sentence, HasSubstr("compute takes 96.0 ms longer"));
  EXPECT_THAT(verdict.sentence, Not(HasSubstr("collective")));
  EXPECT_THAT(verdict.reasons, Contains("A step of full_shard x2 has 500 tokens, a step of "
                                        "no_shard x2 has 1000: times are compared per token, and "
                                        "given for 1000 tokens"));
}

TEST(Verdict, StepsOfOtherFlopsAreNotJudged) {
  StrategyRow before = row("no_shard", plain_figures());
  StrategyRow after = row("full_shard", sharded_figures());
  // The same flops at 6% more time is an MFU lower by 6%.
  before.profiled->mfu_share = 0.53;
  after.profiled->mfu_share = 0.5;
  EXPECT_THAT(compared(before, after).sentence, StartsWith("FULL_SHARD saves"));
  after.profiled->mfu_share = 0.25;
  EXPECT_THAT(compared(before, after).sentence, HasSubstr("cannot be judged"));
}

TEST(Verdict, AnImportedTraceIsNotKnownToBeOfTheSameModel) {
  StrategyRow after = row("", sharded_figures());
  after.label = "trace.json.gz";
  EXPECT_EQ(compared(row("no_shard", plain_figures()), after).sentence,
            "trace.json.gz cannot be judged against no_shard x2: what trace.json.gz trained is not "
            "known to be the same.");
}

TEST(Verdict, SaysWhichOneFits) {
  StrategyRow before = row("no_shard", plain_figures());
  StrategyRow after = row("full_shard", sharded_figures());
  before.device_memory = after.device_memory = 800_MiB;
  before.fits = false;
  EXPECT_THAT(compared(before, after).sentence,
              StartsWith("FULL_SHARD fits into a device's 800 MiB, NO_SHARD does not. FULL_SHARD "
                         "saves"));
}

TEST(Verdict, RunsOfOneStrategyAreCalledByTheirLabels) {
  StrategyRow before = row("full_shard", sharded_figures());
  StrategyRow after = before;
  after.label = "full_shard x4";
  EXPECT_THAT(compared(before, after).sentence, StartsWith("full_shard x4 makes no difference"));
}

TEST(Verdict, HowWellItWasPredicted) {
  StrategyRow one = row("full_shard", sharded_figures());
  one.predicted = sharded_figures();
  one.predicted->step = one.predicted->time.span = 105_ms;
  one.predicted->time.exposed_communication = 7_ms;
  const Verdict verdict = predicted_against_profiled(one);
  // 1 of 106 ms is 0.943%.
  EXPECT_EQ(verdict.sentence,
            "full_shard x2 was predicted within 0.94% of its step time (105 ms predicted, 106 ms "
            "profiled), and its peak memory to the byte (590 MiB).");
  EXPECT_THAT(verdict.reasons, Contains("Predicted against profiled: Step 106 ms -> 105 ms: "
                                        "exposed communication -1.00 ms"));
}

TEST(Verdict, APeakThatWasMissedIsToldWithBothFigures) {
  StrategyRow one = row("full_shard", sharded_figures());
  one.predicted = sharded_figures();
  one.predicted->peak = 531_MiB;
  // 59 of 590 MiB.
  EXPECT_THAT(predicted_against_profiled(one).sentence,
              EndsWith("and its peak memory within 10% (531 MiB predicted, 590 MiB profiled)."));
}

TEST(Verdict, AStepTimeThatWasNotProfiledIsSaidToBeMissing) {
  StrategyRow one = row("full_shard", sharded_figures());
  one.predicted = sharded_figures();
  one.profiled->step = {};
  const Verdict verdict = predicted_against_profiled(one);
  EXPECT_EQ(verdict.sentence,
            "No step time of full_shard x2 was profiled (106 ms predicted); predicted was its "
            "peak memory to the byte (590 MiB).");
  EXPECT_THAT(verdict.reasons, Contains("Predicted against profiled: Step not known -> 106 ms"));
  one.predicted.reset();
  EXPECT_EQ(predicted_against_profiled(one).sentence,
            "full_shard x2 is only profiled: its step time is not known, 590 MiB at its peak.");
}

TEST(Verdict, ATraceOfACpuIsNotJudgedByTheTimesOfAGpu) {
  StrategyRow one = row("full_shard", sharded_figures());
  one.predicted = sharded_figures();
  one.predicted->step = 2_ms;
  one.predicted->machine = "h100_sxm";
  EXPECT_THAT(predicted_against_profiled(one).sentence, HasSubstr("2.00 ms predicted on h100_sxm"));
  one.predicted->on_gpu = true;
  one.profiled->on_gpu = false;
  const Verdict verdict = predicted_against_profiled(one);
  EXPECT_EQ(verdict.sentence,
            "full_shard x2 was profiled on a CPU and predicted on a GPU (h100_sxm), so that their "
            "times cannot be compared; predicted was its peak memory to the byte (590 MiB).");
  EXPECT_THAT(verdict.reasons, Not(Contains(HasSubstr("Step"))));
}

TEST(Verdict, AStepTimeThatWasNotPredictedIsSaidToBeMissing) {
  StrategyRow one = row("full_shard", sharded_figures());
  one.predicted = sharded_figures();
  one.predicted->step = {};
  one.predicted->peak.reset();
  EXPECT_EQ(predicted_against_profiled(one).sentence,
            "No step time of full_shard x2 was predicted (106 ms profiled).");
}

TEST(Verdict, WithoutAStepTimeOfTheBaselineNothingIsSaidOfTime) {
  StrategyRow before = row("no_shard", plain_figures());
  StrategyRow after = row("full_shard", sharded_figures());
  before.profiled->step = {};
  // Figures by which steps of other work are told are of steps, too.
  before.profiled->tokens_per_s = after.profiled->tokens_per_s = 1000;
  const Verdict verdict = compared(before, after);
  EXPECT_THAT(verdict.sentence,
              StartsWith("FULL_SHARD saves 41% of memory here (at what cost of time is not known: "
                         "no_shard x2 has no step time), because optimizer states shrink"));
  EXPECT_THAT(verdict.sentence, Not(HasSubstr("same time")));
  EXPECT_THAT(verdict.reasons, Contains("Step not known -> 106 ms"));
  before.profiled->peak.reset();
  EXPECT_EQ(compared(before, after).sentence,
            "full_shard x2 cannot be judged against no_shard x2: neither step times nor peaks are "
            "known of both.");
}

TEST(Verdict, StepsWhosePartsAreNotKnownAreNotTheSame) {
  SideFigures before{.step = 100_ms, .time = {}}, after{.step = 174_ms, .time = {}};
  EXPECT_EQ(step_text(before, after), "Step 100 ms -> 174 ms");
  EXPECT_EQ(step_text(after, after), "Step 174 ms in both");
  before.step = {};
  EXPECT_EQ(step_text(before, after), "Step not known -> 174 ms");
  EXPECT_EQ(step_text(before, before), "Step time not known of either");
}

TEST(Verdict, OneSideIsSaidToBeOne) {
  StrategyRow one = row("full_shard", sharded_figures());
  one.predicted = std::exchange(one.profiled, std::nullopt);
  EXPECT_EQ(predicted_against_profiled(one).sentence,
            "full_shard x2 is only predicted: 106 ms a step, 590 MiB at its peak.");
}

TEST(Verdict, ARunOutOfMemoryIsNotJudgedByItsFigures) {
  SideFigures failed = plain_figures();
  failed.ran_out = true;
  failed.step = {};
  failed.time = {};
  failed.traffic.reset();
  const Verdict verdict = compared(row("full_shard", plain_figures()), row("no_shard", failed));
  EXPECT_EQ(verdict.sentence,
            "no_shard x2 cannot be judged against full_shard x2: no_shard x2 runs out of memory.");
  EXPECT_THAT(verdict.reasons, Contains("Step 100 ms -> out of memory"));
  EXPECT_THAT(verdict.reasons, Contains(HasSubstr("not known, out of memory")));
  EXPECT_THAT(verdict.reasons, Not(Contains(HasSubstr(" 0 ns"))));
  EXPECT_THAT(verdict.reasons, Not(Contains(StartsWith("Peak"))));
  StrategyRow one = row("no_shard", failed);
  one.predicted = std::exchange(one.profiled, std::nullopt);
  EXPECT_EQ(predicted_against_profiled(one).sentence,
            "no_shard x2 is only predicted: it runs out of memory.");
}

TEST(VerdictMemory, AShardIsTakenForOneOnlyWhereTheRanksDivideSo) {
  CategoryBytes before, after;
  before[os] = 900_MiB;
  after[os] = 300_MiB;
  // A third, which sharding over 2 of 4 ranks does not explain, and over 3 of 6 does.
  EXPECT_EQ(category_changes(before, after, 4).front().nth, 0);
  EXPECT_EQ(category_changes(before, after, 6).front().nth, 3);
  // Activations are not sharded.
  before = after = {};
  before[activations] = 900_MiB;
  after[activations] = 300_MiB;
  EXPECT_EQ(category_changes(before, after, 6).front().nth, 0);
}

TEST(VerdictMemory, RanksAreNamedOnlyBesideABaselineThatIsWhole) {
  StrategyRow before = row("full_shard", sharded_figures());
  StrategyRow after = before;
  after.label = "full_shard x4";
  after.world = 4;
  // Half of what 2 ranks have each is a shard of 4 ranks.
  after.profiled->at_peak[os] = 125_MiB;
  after.profiled->peak = 465_MiB;
  EXPECT_THAT(compared(before, after).sentence,
              HasSubstr("optimizer states shrink by 125 MiB (to 1/2 of the baseline's)"));
  before.world = 1;
  EXPECT_THAT(compared(before, after).sentence, HasSubstr("(to 1/2, a shard of 2 ranks)"));
}

TEST(VerdictMemory, WhatGrowsWhileThePeakShrinksIsNoReason) {
  CategoryBytes before, after;
  before[os] = 900_MiB;
  after[activations] = 300_MiB;
  const auto changes = category_changes(before, after, 1);
  EXPECT_EQ(memory_reason(changes, Bytes{} - 600_MiB, Baseline::whole),
            "optimizer states shrink by 900 MiB");
  EXPECT_THAT(changes_text(changes), HasSubstr("activations +300 MiB"));
}

TEST(VerdictTime, WhatMakesLessThanAFifthIsNoReason) {
  SideFigures after = sharded_figures();
  after.time.compute = 97_ms;
  after.time.exposed_communication = 7_ms;
  // 1 of 6 ms.
  EXPECT_THAT(time_reason(plain_figures(), after), Not(HasSubstr("compute takes")));
}

TEST(Verdict, PercentsHaveTwoDigits) {
  EXPECT_EQ(percent_text(0.4149), "41%");
  EXPECT_EQ(percent_text(-0.0608), "6.1%");
  EXPECT_EQ(percent_text(0.06), "6%");
  EXPECT_EQ(percent_text(0.0996), "10%");
  EXPECT_EQ(percent_text(0.00812), "0.81%");
}

}  // namespace
}  // namespace shardscope::gui

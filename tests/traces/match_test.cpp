#include "traces/match/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/median.h"
#include "tests/traces/match_samples.h"
#include "traces/match/match_errors.h"
#include "traces/match/matched_trace.h"
#include "traces/match/memory_match.h"

namespace shardscope {
namespace {

using samples::annotation;
using samples::host_event;
using samples::host_operator;
using samples::PredictedRun;
using samples::traced;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = OperationKind;
using Strings = std::vector<std::string>;

Strings joined(Strings first, const Strings& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// FSDP2: the root gathers 4 elements a rank, block "h.0" 8; only the block's gradients travel.
PredictedRun fsdp2_prediction() {
  PredictedRun run;
  for (int step = 1; step <= 3; ++step)
    run.step()
        .collective(Kind::all_gather, Phase::forward, "", 4, 8)
        .collective(Kind::all_gather, Phase::forward, "h.0", 8, 16)
        .compute("aten.mm.default", "2x3 3x4", "h.0")
        .collective(Kind::reduce_scatter, Phase::backward, "h.0", 16, 8);
  return run;
}

Strings fsdp2_step(int number, int at) {
  return {annotation("ProfilerStep#" + std::to_string(number), at, 100),
          annotation("FSDP::pre_forward", at + 1, 9),
          annotation("FSDP::all_gather", at + 2, 6),
          host_operator("c10d::_allgather_base_", at + 3, 2, "[[8], [4], [], []]"),
          annotation("FSDP::pre_forward (h.0)", at + 11, 9),
          annotation("FSDP::all_gather (h.0)", at + 12, 6),
          host_operator("c10d::_allgather_base_", at + 13, 2, "[[16], [8], [], []]"),
          host_operator("aten::matmul", at + 30, 10, "[[2, 3], [3, 4]]"),
          host_operator("aten::mm", at + 31, 5, "[[2, 3], [3, 4]]"),
          annotation("FSDP::post_backward_reduce (h.0)", at + 50, 9),
          host_operator("c10d::_reduce_scatter_base_", at + 52, 2, "[[8], [16], [], []]")};
}

TEST(Match, FindsStepsUnitsAndCollectivesOfFsdp2) {
  const ImportedTrace trace = traced(joined(fsdp2_step(2, 0), fsdp2_step(3, 100)));
  const RankMatch result = match(fsdp2_prediction().trace(), trace);
  EXPECT_TRUE(result.complete());
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_EQ(result.runtime, ProfiledRuntime::fsdp2);
  ASSERT_EQ(result.units.size(), 2U);
  EXPECT_EQ(result.units[1].profiled, "FSDP::... (h.0)");
  EXPECT_EQ(result.all_collectives().matched(), 6);
  // The host's operators say neither element type nor group.
  EXPECT_EQ(result.all_collectives().known_fields, 6);
  EXPECT_EQ(result.all_compute().all_fields, 2);
  EXPECT_EQ(result.steps[1].predicted, 3);  // the one that repeats
}

// The profiler counts from 0: its first step is the predicted one.
TEST(Match, LaysTheFirstStepBesideTheFirst) {
  const RankMatch result = match(fsdp2_prediction().trace(), traced(fsdp2_step(0, 0)));
  EXPECT_EQ(result.steps[0].predicted, 1);
}

TEST(Match, SaysTheFirstCollectiveThatAnotherModelHas) {
  PredictedRun other;
  other.step()
      .collective(Kind::all_gather, Phase::forward, "", 4, 8)
      .collective(Kind::all_gather, Phase::forward, "h.0", 9, 18)
      .collective(Kind::reduce_scatter, Phase::backward, "h.0", 18, 9);
  const RankMatch result = match(other.trace(), traced(fsdp2_step(2, 0)));
  EXPECT_FALSE(result.complete());
  ASSERT_FALSE(result.differences.empty());
  EXPECT_EQ(result.differences[0].what, "collectives");
  EXPECT_THAT(result.differences[0].predicted, HasSubstr("9 elements in, 18 out"));
  EXPECT_THAT(result.differences[0].profiled, HasSubstr("8 elements in, 16 out"));
  EXPECT_EQ(result.all_collectives().order_and_kind, 2);
}

TEST(Match, SaysWhatToCheck) {
  PredictedRun larger;
  larger.step()
      .collective(Kind::all_gather, Phase::forward, "", 5, 10)
      .collective(Kind::all_gather, Phase::forward, "h.0", 9, 18)
      .collective(Kind::reduce_scatter, Phase::backward, "h.0", 18, 9);
  EXPECT_THAT(match(larger.trace(), traced(fsdp2_step(2, 0))).notes,
              ElementsAre(HasSubstr("sizes")));
  PredictedRun other;
  other.step().collective(Kind::all_reduce, Phase::backward, "", 30, 30);
  EXPECT_THAT(match(other.trace(), traced(fsdp2_step(2, 0))).notes,
              ElementsAre(HasSubstr("strategy")));
}

TEST(Match, NamesUnitsThatOneSideAloneHas) {
  PredictedRun other;
  other.step()
      .collective(Kind::all_gather, Phase::forward, "", 4, 8)
      .collective(Kind::all_gather, Phase::forward, "layers.0", 8, 16);
  const RankMatch result = match(other.trace(), traced(fsdp2_step(2, 0)));
  EXPECT_FALSE(result.units[1].matched);
  Strings units;
  for (const MatchDifference& difference : result.differences)
    if (difference.what == "units") units.push_back(difference.predicted + difference.profiled);
  EXPECT_THAT(units, ElementsAre("layers.0", "h.0"));
}

TEST(Match, SaysThatTheWorldIsAnother) {
  const RankMatch result = match(fsdp2_prediction().trace(), traced(fsdp2_step(2, 0), 4));
  const MatchDifference& last = result.differences.back();
  EXPECT_EQ(last.what, "world");
  EXPECT_EQ(last.predicted, "2 ranks");
  EXPECT_EQ(last.profiled, "4 ranks");
  EXPECT_THAT(result.notes, testing::Contains(HasSubstr("--world")));
}

// Two steps without ProfilerStep, each ended by its optimizer.
TEST(Match, CutsStepsAtTheOptimizerWhereNothingElseMarksThem) {
  Strings events = joined(fsdp2_step(2, 0), fsdp2_step(3, 100));
  events.erase(events.begin() + 11);
  events.erase(events.begin());
  events.push_back(annotation("Optimizer.step#SGD.step", 90, 5));
  events.push_back(annotation("Optimizer.step#SGD.step", 190, 5));
  const RankMatch result = match(fsdp2_prediction().trace(), traced(events));
  EXPECT_EQ(result.step_marks, StepMarks::optimizer_steps);
  EXPECT_EQ(result.steps.size(), 2U);
  EXPECT_TRUE(result.complete());
  EXPECT_THAT(result.notes.front(), HasSubstr("prof.step()"));
}

// Its collectives are found, but where a step begins and ends it does not say.
TEST(Match, TakesATraceWithoutAnyMarkAsOneStepThatIsNotToldApart) {
  Strings events = fsdp2_step(2, 0);
  events.erase(events.begin());
  const RankMatch result = match(fsdp2_prediction().trace(), traced(events));
  EXPECT_EQ(result.step_marks, StepMarks::none);
  EXPECT_TRUE(result.all_collectives().complete());
  EXPECT_EQ(result.all_steps().predicted, 1);
  EXPECT_EQ(result.all_steps().profiled, 0);
  EXPECT_FALSE(result.complete());
}

TEST(Match, OfNothingIsNotComplete) {
  const RankMatch of_nothing = match(fsdp2_prediction().trace(), traced({}));
  EXPECT_FALSE(of_nothing.complete());
  EXPECT_EQ(of_nothing.all_steps().predicted, 1);
  EXPECT_EQ(of_nothing.all_steps().profiled, 0);
  EXPECT_EQ(of_nothing.all_steps().matched(), 0);
  EXPECT_FALSE(match(Trace{}, traced(fsdp2_step(2, 0))).complete());
}

// Two marked steps, of which the second only reduces: nothing that was predicted is like it.
TEST(Match, CountsAStepThatIsLikeNoPredictedOne) {
  const Strings other{annotation("ProfilerStep#3", 100, 100),
                      host_operator("c10d::allreduce_", 140, 1, "[[[7]], [], []]")};
  const RankMatch result =
      match(fsdp2_prediction().trace(), traced(joined(fsdp2_step(2, 0), other)));
  EXPECT_EQ(result.all_steps().predicted, 1);
  EXPECT_EQ(result.all_steps().profiled, 2);
  EXPECT_EQ(result.all_steps().matched(), 1);
  EXPECT_THAT(result.differences,
              testing::Contains(testing::Field(&MatchDifference::what, "steps")));
}

// The root, "", is what DDP has too; FSDP2's is no counterpart of it.
TEST(Match, FindsNoUnitOfAnotherRuntime) {
  const Trace predicted = fsdp2_prediction().trace();
  EXPECT_TRUE(match(predicted, traced(fsdp2_step(2, 0)), Runtime::fsdp2).complete());
  for (const Runtime runtime : {Runtime::ddp, Runtime::fsdp1, Runtime::native}) {
    const RankMatch result = match(predicted, traced(fsdp2_step(2, 0)), runtime);
    EXPECT_FALSE(result.complete());
    EXPECT_EQ(result.differences.front().what, "runtime");
    EXPECT_EQ(result.differences.front().predicted, name_of(runtime));
    EXPECT_EQ(result.differences.front().profiled, "fsdp2");
    EXPECT_EQ(result.all_units().predicted, 2);
    EXPECT_EQ(result.all_units().profiled, 2);
    EXPECT_EQ(result.all_units().matched(), 0);
  }
}

// FSDP1 names no unit: the root's forward encloses the block's. The list form of all-gather on
// gloo does not say what comes out.
Strings fsdp1_step(int at) {
  return {annotation("ProfilerStep#2", at, 100),
          annotation("FullyShardedDataParallel.forward", at + 1, 60),
          annotation("FullyShardedDataParallel._pre_forward", at + 2, 5),
          host_operator("c10d::allgather_", at + 3, 1, "[[], [[4]], [], []]"),
          annotation("FullyShardedDataParallel.forward", at + 20, 20),
          annotation("FullyShardedDataParallel._pre_forward", at + 21, 5),
          host_operator("c10d::allgather_", at + 22, 1, "[[], [[8]], [], []]"),
          annotation("FullyShardedDataParallel._post_backward_hook", at + 70, 9),
          host_operator("c10d::_reduce_scatter_base_", at + 72, 1, "[[8], [16], [], []]")};
}

TEST(Match, FindsUnitsOfFsdp1ByOrderAndNesting) {
  const RankMatch result = match(fsdp2_prediction().trace(), traced(fsdp1_step(0)));
  EXPECT_TRUE(result.complete());
  ASSERT_EQ(result.units.size(), 2U);
  EXPECT_EQ(result.units[1].by, "order and nesting");
  EXPECT_EQ(result.units[1].confidence, Confidence::known_fields);
  EXPECT_THAT(result.units[1].profiled, HasSubstr("2 of 2, depth 1"));
  EXPECT_EQ(result.all_collectives().known_fields, 3);
}

// As many units, nested alike; the block gathers 9 elements instead of the 8 that the trace says.
TEST(Match, DoesNotTakeAUnitOfFsdp1WhoseCollectivesAreOfOtherSizes) {
  PredictedRun other;
  other.step()
      .collective(Kind::all_gather, Phase::forward, "", 4, 8)
      .collective(Kind::all_gather, Phase::forward, "h.0", 9, 18);
  const RankMatch result = match(other.trace(), traced(fsdp1_step(0)), Runtime::fsdp1);
  ASSERT_EQ(result.units.size(), 2U);
  EXPECT_TRUE(result.units[0].matched);
  EXPECT_FALSE(result.units[1].matched);
  EXPECT_EQ(result.all_units().profiled, 2);
}

// As many forwards, but beside each other: which is which cannot be told.
TEST(Match, DoesNotGuessUnitsThatAreNestedOtherwise) {
  PredictedRun flat;
  flat.step()
      .collective(Kind::all_gather, Phase::forward, "a", 4, 8)
      .collective(Kind::all_gather, Phase::forward, "b", 8, 16);
  const RankMatch result = match(flat.trace(), traced(fsdp1_step(0)));
  EXPECT_FALSE(result.units[0].matched);
  EXPECT_FALSE(result.units[1].matched);
  EXPECT_FALSE(result.complete());
}

// The root has no parameters of its own: a forward, but no unit.
TEST(Match, LeavesOutARootWithoutParameters) {
  PredictedRun block;
  block.step().collective(Kind::all_gather, Phase::forward, "h.0", 8, 16);
  const Strings events{annotation("ProfilerStep#2", 0, 100),
                       annotation("FullyShardedDataParallel.forward", 1, 60),
                       annotation("FullyShardedDataParallel.forward", 20, 20),
                       annotation("FullyShardedDataParallel._pre_forward", 21, 5),
                       host_operator("c10d::allgather_", 22, 1, "[[], [[8]], [], []]")};
  const RankMatch result = match(block.trace(), traced(events));
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.all_units().profiled, 1);
}

TEST(Match, FindsBucketsOfDdpByTheirAllReduces) {
  PredictedRun run;
  run.step()
      .collective(Kind::all_reduce, Phase::backward, "", 100, 100)
      .collective(Kind::all_reduce, Phase::backward, "", 30, 30);
  const Strings events{annotation("ProfilerStep#2", 0, 100),
                       annotation("DistributedDataParallel.forward", 1, 20),
                       host_operator("c10d::allreduce_", 40, 1, "[[[100]], [], []]"),
                       host_operator("c10d::allreduce_", 60, 1, "[[[30]], [], []]")};
  const RankMatch result = match(run.trace(), traced(events));
  EXPECT_TRUE(result.complete());
  ASSERT_EQ(result.units.size(), 2U);
  EXPECT_EQ(result.units[1].name, "bucket 1");
  EXPECT_EQ(result.units[1].by, "collectives");
}

// In either of two steps one bucket more than predicted: it is one unit that is left over.
TEST(Match, CountsABucketThatWasNotPredicted) {
  PredictedRun run;
  run.step().collective(Kind::all_reduce, Phase::backward, "", 100, 100);
  const Strings events{annotation("DistributedDataParallel.forward", 1, 20),
                       annotation("ProfilerStep#2", 0, 100),
                       host_operator("c10d::allreduce_", 40, 1, "[[[100]], [], []]"),
                       host_operator("c10d::allreduce_", 60, 1, "[[[30]], [], []]"),
                       annotation("ProfilerStep#3", 100, 100),
                       host_operator("c10d::allreduce_", 140, 1, "[[[100]], [], []]"),
                       host_operator("c10d::allreduce_", 160, 1, "[[[30]], [], []]")};
  const PairCounts units = match(run.trace(), traced(events)).all_units();
  EXPECT_EQ(units.predicted, 1);
  EXPECT_EQ(units.profiled, 2);
  EXPECT_EQ(units.matched(), 1);
}

// The first step reduces the buckets that it began with, later ones what it made of them.
TEST(Match, CountsTheBucketsThatDdpHasRebuilt) {
  PredictedRun run;
  run.step()
      .collective(Kind::all_reduce, Phase::backward, "", 70, 70)
      .collective(Kind::all_reduce, Phase::backward, "", 40, 40)
      .collective(Kind::all_reduce, Phase::backward, "", 20, 20);
  run.step().collective(Kind::all_reduce, Phase::backward, "", 130, 130);
  const Strings events{annotation("ProfilerStep#0", 0, 100),
                       annotation("DistributedDataParallel.forward", 1, 20),
                       host_operator("c10d::allreduce_", 40, 1, "[[[70]], [], []]"),
                       host_operator("c10d::allreduce_", 50, 1, "[[[40]], [], []]"),
                       host_operator("c10d::allreduce_", 60, 1, "[[[20]], [], []]"),
                       annotation("ProfilerStep#1", 100, 100),
                       host_operator("c10d::allreduce_", 140, 1, "[[[130]], [], []]")};
  const RankMatch result = match(run.trace(), traced(events));
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.units.size(), 1U);
  EXPECT_EQ(result.all_collectives().matched(), 4);
}

// Without no_sync every micro-batch reduces the same buckets.
TEST(Match, CountsABucketOfSeveralMicroBatchesOnce) {
  PredictedRun run;
  run.step()
      .collective(Kind::all_reduce, Phase::backward, "", 100, 100)
      .micro_batch()
      .collective(Kind::all_reduce, Phase::backward, "", 100, 100);
  const Strings events{annotation("ProfilerStep#2", 0, 100),
                       annotation("DistributedDataParallel.forward", 1, 20),
                       host_operator("c10d::allreduce_", 40, 1, "[[[100]], [], []]"),
                       host_operator("c10d::allreduce_", 80, 1, "[[[100]], [], []]")};
  const RankMatch result = match(run.trace(), traced(events));
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.units.size(), 1U);
}

// What gloo does in a collective is no operator of the model, nor is what another operator calls.
TEST(Match, CountsOnlyTheOutermostOfTheModelsOperators) {
  PredictedRun run;
  run.step()
      .compute("aten.mean.dim", "2x8", "")
      .compute("aten.sum.dim_IntList", "8", "")
      .compute("aten.clone.default", "8", "");
  const Strings events{annotation("ProfilerStep#2", 0, 100),
                       host_operator("aten::mean", 10, 10, "[[2, 8], [], []]"),
                       host_operator("aten::sum", 12, 5, "[[2, 8], []]"),
                       host_operator("aten::sum", 30, 5, "[[8], []]"),
                       host_operator("c10d::_reduce_scatter_base_", 40, 9, "[[8], [16], [], []]"),
                       host_operator("aten::clone", 41, 5, "[[16], []]"),
                       host_operator("aten::clone", 60, 5, "[[8], []]")};
  const RankMatch result = match(run.trace(), traced(events));
  EXPECT_EQ(result.all_compute().profiled, 3);
  EXPECT_EQ(result.all_compute().all_fields, 3);
}

// An operator on DTensors hands over to Python, which calls it on this rank's parts.
TEST(Match, TakesTheOperatorThatADtensorCallsOnItsPart) {
  PredictedRun run;
  run.step().compute("aten.mul_.Tensor", "4x6", "");
  const Strings events{annotation("ProfilerStep#2", 0, 100),
                       host_operator("aten::mul_", 10, 30, "[[8, 6], []]"),
                       host_operator("PythonSubclass", 12, 20, "[[8, 6], []]"),
                       host_operator("aten::mul_", 15, 5, "[[4, 6], []]")};
  const RankMatch result = match(run.trace(), traced(events));
  EXPECT_EQ(result.all_compute().all_fields, 1);
  EXPECT_EQ(result.all_compute().profiled, 1);
}

// Two steps: compute takes 5 us in the trace of either, 1 us in the prediction; steps 100 and 4 us.
TEST(MatchErrors, AreByCategoryAndUnit) {
  const PredictedRun run = fsdp2_prediction();
  const ImportedTrace trace = traced(joined(fsdp2_step(2, 0), fsdp2_step(3, 100)));
  const RankMatch result = match(run.trace(), trace);
  const MatchErrors errors = match_errors({{&run.trace(), &result}});
  EXPECT_EQ(errors.step.profiled.value.ns, 100'000);
  EXPECT_EQ(errors.compute.predicted.value.ns, 1'000);
  EXPECT_EQ(errors.compute.profiled.value.ns, 5'000);
  EXPECT_DOUBLE_EQ(*error_share(errors.compute), -0.8);
  EXPECT_EQ(errors.communication.profiled.value.ns, 0);  // the trace has only the calls
  EXPECT_EQ(errors.unmatched.profiled.value.ns, 0);
  ASSERT_EQ(errors.by_unit.size(), 1U);
  EXPECT_EQ(errors.by_unit[0].unit, "h.0");
  EXPECT_EQ(errors.by_unit[0].compute.profiled.value.ns, 5'000);
}

// gloo's own events say how long the transfer took, and of what element type.
TEST(MatchErrors, TakeTransfersFromGloo) {
  PredictedRun run;
  run.step().collective(Kind::all_reduce, Phase::backward, "", 100, 100);
  const std::string transfer =
      R"({"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 9, "ts": 45,)"
      R"( "dur": 30, "args": {"Input Dims": [[100]], "Input type": ["float"]}})";
  const ImportedTrace trace =
      traced({annotation("ProfilerStep#2", 0, 100),
              host_operator("c10d::allreduce_", 40, 1, "[[[100]], [], []]"), transfer});
  const RankMatch result = match(run.trace(), trace);
  ASSERT_EQ(result.collectives.size(), 1U);
  EXPECT_EQ(result.collectives[0].profiled->ns, 30'000);
  const Trace matched = matched_trace(run.trace(), trace, result);
  ASSERT_EQ(matched.spans.size(), 1U);
  EXPECT_EQ(matched.spans[0].duration.ns, 30'000);
  EXPECT_EQ(matched.spans[0].operation, result.collectives[0].operation);
}

std::string gloo_all_reduce(int at, int elements) {
  return R"({"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 9, "ts": )" +
         std::to_string(at) + R"(, "dur": )" + std::to_string(elements) +
         R"(, "args": {"Input Dims": [[)" + std::to_string(elements) +
         R"(]], "Input type": ["float"]}})";
}

// The first transfer, of 5 elements, has no operator and stays; one of 30 was over before an
// operator asked for it. A transfer lasts as many microseconds as it has elements.
TEST(MatchErrors, GiveEachOperatorTheFirstTransferOfItsSizeThatIsNotOver) {
  PredictedRun run;
  run.step()
      .collective(Kind::all_reduce, Phase::backward, "", 100, 100)
      .collective(Kind::all_reduce, Phase::backward, "", 30, 30)
      .collective(Kind::all_reduce, Phase::backward, "", 30, 30);
  const RankMatch result = match(
      run.trace(),
      traced({annotation("ProfilerStep#2", 0, 400), gloo_all_reduce(1, 5), gloo_all_reduce(2, 30),
              host_operator("c10d::allreduce_", 40, 1, "[[[100]], [], []]"),
              host_operator("c10d::allreduce_", 50, 1, "[[[30]], [], []]"),
              host_operator("c10d::allreduce_", 60, 1, "[[[30]], [], []]"), gloo_all_reduce(70, 30),
              gloo_all_reduce(101, 100), gloo_all_reduce(210, 30)}));
  std::vector<std::int64_t> durations;
  for (const CollectivePair& pair : result.collectives) durations.push_back(pair.profiled->ns);
  EXPECT_THAT(durations, ElementsAre(100'000, 30'000, 30'000));
}

TEST(LowerMedian, IsTheLowerOneOfTwo) {
  EXPECT_EQ(lower_median(std::vector<int>{4, 1, 3, 2}), 2);
  EXPECT_EQ(lower_median(std::vector<int>{4, 1, 3}), 3);
  EXPECT_EQ(lower_median(std::vector<int>{}), 0);
}

std::string memory_event(int at, int bytes, int total) {
  return R"({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": )" +
         std::to_string(at) + R"(, "args": {"Device Type": 0, "Device Id": -1, "Bytes": )" +
         std::to_string(bytes) + R"(, "Total Allocated": )" + std::to_string(total) +
         R"(, "Total Reserved": 0}})";
}

// 300 bytes live when the step begins, 800 at its peak: 500 more. Predicted: 1,000 to 1,400.
TEST(MemoryMatch, OfACpuIsWhatAStepAddsToWhatWasThere) {
  PredictedRun run = fsdp2_prediction();
  Trace predicted = run.trace();
  CategoryBytes before, most;
  before[MemoryCategory::parameters] = 1000_B;
  most[MemoryCategory::parameters] = 1400_B;
  predicted.memory = {{.time = {0}, .live = before},
                      {.time = {9'000}, .live = most},
                      {.time = {11'500}, .live = before}};
  const ImportedTrace trace =
      traced(joined(fsdp2_step(2, 100), {memory_event(50, 300, 300), memory_event(130, 500, 800),
                                         memory_event(140, -500, 300)}));
  const RankMatch result = match(predicted, trace);
  const auto errors = memory_errors(predicted, trace, result);
  ASSERT_TRUE(errors && errors->rise);
  EXPECT_FALSE(errors->peak);
  EXPECT_EQ(errors->rise->predicted.value, 400_B);
  EXPECT_EQ(errors->rise->profiled.value, 500_B);
}

TEST(ProfiledUnits, ReadsTheNamesThatFsdp2Gives) {
  EXPECT_EQ(fsdp2_unit_of("FSDP::all_gather (h.0)"), "h.0");
  EXPECT_EQ(fsdp2_unit_of("FSDP::all_gather"), "");
  EXPECT_EQ(fsdp2_unit_of("FSDP::post_backward_rs_wait ()"), "");
  EXPECT_EQ(fsdp2_unit_of("FSDP::pre_forward (norm, lm_head) [pg=4]"), "norm, lm_head");
  EXPECT_EQ(fsdp2_unit_of("FSDP::pre_forward (h.0._checkpoint_wrapped_module.mlp)"), "h.0.mlp");
  EXPECT_EQ(fsdp2_unit_of("FSDP::backward_prefetch for h.0"), std::nullopt);
  EXPECT_EQ(fsdp2_unit_of("FSDP::root_pre_forward"), std::nullopt);
  EXPECT_EQ(fsdp2_unit_of("forward"), std::nullopt);
}

}  // namespace
}  // namespace shardscope

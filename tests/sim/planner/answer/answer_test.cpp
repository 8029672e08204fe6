// The whole answer, of inputs that were filled without a command line.
#include "sim/planner/answer/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "sim/planner/answer/answer_json.h"
#include "sim/planner/answer/pareto.h"
#include "sim/planner/answer/rounds.h"
#include "sim/planner/choice_prediction.h"
#include "tests/core/complaint.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

/// Of every choice that keeps all on the device.
std::vector<Summary> every_summary(const Inputs& inputs) {
  const Basis basis(inputs);
  std::vector<Summary> summaries;
  for (const Choice& choice : choices_of(inputs, inputs.question.world).choices)
    if (choice.offload == Offload::none) summaries.push_back(summary_of(choice, basis.trials));
  return summaries;
}

TEST(Answer, TheFirstPlaceIsTheFastestOfAllChoices) {
  const Inputs inputs = tiny_plan();
  const Answer found = answer(inputs, {});
  ASSERT_FALSE(found.candidates.empty());
  Duration fastest = 1000_s;
  for (const Summary& summary : every_summary(inputs))
    fastest = std::min(fastest, summary.step_time);
  EXPECT_EQ(found.candidates.front().summary.step_time, fastest);
  EXPECT_LT(found.simulated, found.choices);
}

TEST(Answer, ByMemoryTheFirstPlaceIsTheSmallestOfAllChoices) {
  Inputs inputs = tiny_plan();
  inputs.objective = Objective::memory;
  const Answer found = answer(inputs, {});
  ASSERT_FALSE(found.candidates.empty());
  Bytes smallest = inputs.profile.memory;
  for (const Summary& summary : every_summary(inputs))
    smallest = std::min(smallest, needed_memory(summary));
  EXPECT_EQ(needed_memory(found.candidates.front().summary), smallest);
}

// A search knows the usual margin only, 1 GiB here. A CUDA context of 2 GiB that is known to within
// a factor of 2 asks for more: the fastest does not leave it.
TEST(Answer, AChoiceThatLeavesLessThanItsBandGivesItsPlaceToTheNext) {
  Inputs inputs = tiny_plan();
  inputs.places = 1;
  inputs.margin.reset();
  inputs.profile.memory = 64_GiB;
  inputs.profile.context_memory = 2_GiB;
  inputs.profile.provenance["context_memory"] = {.source = "a test", .spread = 0.42};
  const Summary fastest = std::ranges::min(every_summary(inputs), {}, &Summary::step_time);
  inputs.profile.memory = memory_band(fastest).high - 1_MiB;
  ASSERT_GT(*free_memory(fastest) - (64_GiB - inputs.profile.memory), 1_GiB);

  Duration of_those_that_fit = 1000_s;
  for (const Summary& summary : every_summary(inputs))
    if (leaves_margin(summary)) of_those_that_fit = std::min(of_those_that_fit, summary.step_time);
  ASSERT_GT(of_those_that_fit, fastest.step_time);
  const Answer found = answer(inputs, {});
  ASSERT_EQ(found.best_few, found.chosen.candidate + 1);
  EXPECT_EQ(found.candidates.front().summary.step_time, of_those_that_fit);
}

TEST(Answer, EachStrategyHasAPlaceOrAReason) {
  Inputs inputs = tiny_plan();
  inputs.places = 2;
  const Answer found = answer(inputs, {});
  EXPECT_EQ(found.best_few, std::max<std::size_t>(2, found.chosen.candidate + 1));
  std::multiset<std::string> told;
  for (std::size_t i = 0; i < found.best_few; ++i) told.insert(kind_of(found.candidates[i].choice));
  for (const Rejected& rejected : found.rejected) told.insert(rejected.strategy);
  EXPECT_EQ(told,
            (std::multiset<std::string>{"ddp no_shard", "fsdp2 full_shard", "fsdp2 hybrid_shard",
                                        "fsdp2 hybrid_shard_zero2", "fsdp2 shard_grad_op"}));
}

TEST(Answer, WritesTheChosenOne) {
  const Answer found = answer(tiny_plan(), {});
  ASSERT_TRUE(found.written);
  EXPECT_EQ(found.written->file, "accelerate.yaml");
  EXPECT_THAT(found.written->text, HasSubstr("num_processes: 4"));
}

TEST(Answer, OnlyAskedStrategiesAreWeighed) {
  Inputs inputs = tiny_plan();
  inputs.strategies = {ShardingStrategy::shard_grad_op};
  for (const Candidate& candidate : answer(inputs, {}).candidates)
    EXPECT_EQ(candidate.choice.sharding, ShardingStrategy::shard_grad_op);
  inputs.question.runtimes = {Runtime::ddp};
  EXPECT_THAT(complaint_of([&] { answer(inputs, {}); }), HasSubstr("nothing is left to compare"));
}

TEST(Answer, UsualPrecisionsNameTheOthers) {
  const auto bf16 = Contains(Field(&Dropped::strategy, "bf16"));
  Inputs inputs = tiny_plan();
  EXPECT_THAT(answer(inputs, {}).dropped, Not(bf16));
  inputs.has_usual_precisions = true;
  EXPECT_THAT(answer(inputs, {}).dropped, bf16);
}

TEST(Answer, AStopLeavesNoAdvice) {
  std::stop_source source;
  source.request_stop();
  const Answer found = answer(tiny_plan(), {.stop = source.get_token()});
  EXPECT_TRUE(found.interrupted);
  EXPECT_THAT(found.candidates, IsEmpty());
  EXPECT_THAT(found.advice, IsEmpty());
}

TEST(Answer, ReportsProgress) {
  std::size_t most = 0;
  const Answer found = answer(tiny_plan(), {.on_progress = [&](const Progress& progress) {
                                most = std::max(most, progress.simulated);
                              }});
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, found.simulated);
}

TEST(AnswerJson, SaysWhatTheAnswerHolds) {
  Inputs inputs = tiny_plan();
  inputs.goals.price_per_gpu_hour = 2.5;
  inputs.assumed = {"by hand"};
  const Answer found = answer(inputs, {});
  const Json json = Json::parse(answer_json(found, inputs));
  EXPECT_EQ(json["schema"], "shardscope.plan/1");
  EXPECT_EQ(json["objective"], "time");
  EXPECT_EQ(json["world"], 4);
  EXPECT_EQ(json["tokens_per_batch"], 512);
  EXPECT_EQ(json["assumed"], Json({"by hand"}));
  EXPECT_EQ(json["given"], Json());
  ASSERT_EQ(json["candidates"].size(), found.candidates.size());
  const Json& best = json["candidates"][0];
  EXPECT_EQ(best["step_time_ns"], found.candidates[0].summary.step_time.ns);
  EXPECT_EQ(best["settings"]["runtime"], name_of(found.candidates[0].choice.runtime));
  EXPECT_DOUBLE_EQ(best["price_per_1e9_tokens"].get<double>(), 2.5 * found.candidates[0].gpu_hours);
  EXPECT_EQ(json["chosen"]["text"], found.written->text);
  EXPECT_EQ(json["losers"].size(), found.rejected.size());
}

TEST(ParetoPoints, ShowTheGivenRunWhereItFits) {
  Answer found{.candidates = {candidate_with({10, 0, 1_GiB})}};
  found.candidates[0].place = 1;
  EXPECT_EQ(pareto_points(found).size(), 1u);
  found.given = GivenPlace{.name = "mine.yaml", .summary = summary_with({20, 0, 2_GiB})};
  ASSERT_EQ(pareto_points(found).size(), 2u);
  EXPECT_TRUE(pareto_points(found)[1].is_given);
  EXPECT_EQ(pareto_points(found)[1].memory, 2_GiB);
  found.given->refused = "no such strategy";
  EXPECT_EQ(pareto_points(found).size(), 1u);
}

}  // namespace
}  // namespace shardscope::planner

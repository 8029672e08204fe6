// What `plan` makes of its options: inputs of the planner.
#include "cli/plan_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/core/complaint.h"

namespace shardscope::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlanInputs : public ::testing::Test {
 protected:
  PlanInputs() {
    workplace_.write("config.json", tiny_config());
    options_.job.model = (workplace_.path() / "config.json").string();
    options_.job.tokens_per_batch = 128;
    options_.job.seq = 16;
    options_.cluster = "h100_sxm";
    options_.pytorch.allocator = "expandable_segments:True";
  }
  planner::Inputs resolved() const { return resolve_plan(options_); }

  Workplace workplace_;
  PlanOptions options_;
};

// A node of h100_sxm has 8 GPUs: one sequence of 16 tokens for each.
TEST_F(PlanInputs, AreUsualWhereNothingIsAsked) {
  const planner::Inputs inputs = resolved();
  EXPECT_EQ(inputs.question.world, 8);
  EXPECT_EQ(inputs.question.tokens_per_batch, 128);
  EXPECT_EQ(inputs.question.training.length, 16);
  EXPECT_THAT(inputs.question.runtimes,
              ElementsAre(Runtime::ddp, Runtime::fsdp2, Runtime::fsdp1, Runtime::deepspeed));
  EXPECT_THAT(inputs.question.precisions,
              ElementsAre(TrainingPrecision::bf16_mixed, TrainingPrecision::fp32));
  EXPECT_TRUE(inputs.has_usual_precisions);
  EXPECT_EQ(inputs.objective, planner::Objective::time);
  EXPECT_EQ(inputs.places, 5u);
  EXPECT_THAT(inputs.strategies, IsEmpty());
  EXPECT_FALSE(inputs.given);
  EXPECT_EQ(inputs.profile.name, "h100_sxm");
  EXPECT_TRUE(inputs.allocator.expandable_segments);
}

TEST_F(PlanInputs, AreWhatIsAsked) {
  options_.worlds = "4";
  options_.runtimes = "fsdp2";
  options_.job.precision = "bf16";
  options_.job.strategy = "full_shard,hybrid_shard";
  options_.objective = "cost";
  options_.price = 2.5;
  options_.places = 3;
  options_.margin = "2 GiB";
  const planner::Inputs inputs = resolved();
  EXPECT_EQ(inputs.question.world, 4);
  EXPECT_THAT(inputs.question.runtimes, ElementsAre(Runtime::fsdp2));
  EXPECT_THAT(inputs.question.precisions, ElementsAre(TrainingPrecision::bf16));
  EXPECT_FALSE(inputs.has_usual_precisions);
  EXPECT_THAT(inputs.strategies,
              ElementsAre(ShardingStrategy::full_shard, ShardingStrategy::hybrid_shard));
  EXPECT_EQ(inputs.objective, planner::Objective::cost);
  EXPECT_EQ(inputs.goals.price_per_gpu_hour, 2.5);
  EXPECT_EQ(inputs.places, 3u);
  EXPECT_EQ(inputs.margin, 2_GiB);
}

// 128 tokens are two sequences for each of the file's four ranks.
TEST_F(PlanInputs, AGivenFileRunsThePlansTokens) {
  workplace_.write("mine.yaml",
                   "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\n"
                   "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
                   "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  options_.sharding.accelerate = (workplace_.path() / "mine.yaml").string();
  const planner::Inputs inputs = resolved();
  EXPECT_EQ(inputs.question.world, 4);
  EXPECT_THAT(inputs.question.precisions, ElementsAre(TrainingPrecision::bf16_mixed));
  ASSERT_TRUE(inputs.given);
  EXPECT_EQ(inputs.given->name, *options_.sharding.accelerate);
  EXPECT_EQ(inputs.given->training.runtime, Runtime::fsdp2);
  EXPECT_EQ(inputs.given->training.setup.loop.batch, 2);
  EXPECT_EQ(inputs.given->training.setup.loop.length, 16);
  EXPECT_TRUE(inputs.given->training.allocator.expandable_segments);
}

// 128 tokens are 8 sequences of 16: 16 ranks have none each, and 2, 4 and 8 of 2..20 share them.
TEST_F(PlanInputs, OfARangeAreTheWorldsThatShareTheTokens) {
  options_.worlds = "2..20";
  const planner::Inputs inputs = resolved();
  EXPECT_THAT(inputs.worlds, ElementsAre(2, 4, 8));
  EXPECT_EQ(inputs.question.world, 8);
  EXPECT_THAT(inputs.assumed, Contains(HasSubstr("16 ranks are left out")));
}

TEST_F(PlanInputs, HaveGoalsAndAnotherMemory) {
  options_.train_tokens = 1e9;
  options_.price = 2;
  options_.deadline_days = 3;
  options_.budget = 500;
  options_.at_least = 1e6;
  options_.device_memory = "40 GiB";
  const planner::Inputs inputs = resolved();
  EXPECT_EQ(inputs.goals.train_tokens, 1e9);
  EXPECT_EQ(inputs.goals.deadline_days, 3);
  EXPECT_EQ(inputs.goals.budget, 500);
  EXPECT_EQ(inputs.goals.tokens_per_s, 1e6);
  EXPECT_EQ(inputs.profile.memory, 40_GiB);
}

TEST_F(PlanInputs, RefuseGoalsOfATrainingThatIsNotKnown) {
  const auto complaint = [&] { return complaint_of([&] { resolved(); }); };
  options_.deadline_days = 3;
  EXPECT_THAT(complaint(), HasSubstr("--deadline: the tokens of the whole training"));
  options_.train_tokens = 1e9;
  options_.budget = 500;
  EXPECT_THAT(complaint(), HasSubstr("--budget: the price of a GPU is not known"));
  options_.price = 2;
  options_.worlds = "16..8";
  EXPECT_THAT(complaint(), HasSubstr("give the smaller number first: 8..16"));
  options_.worlds = "8";
  options_.device_memory = "0 B";
  EXPECT_THAT(complaint(), HasSubstr("--device-memory"));
}

TEST_F(PlanInputs, RefuseBadWishes) {
  const auto complaint = [&] { return complaint_of([&] { resolved(); }); };
  options_.places = 51;
  EXPECT_THAT(complaint(), HasSubstr("--places: expected 1 to 50, got 51"));
  options_.places = 50;
  options_.price = 0;
  EXPECT_THAT(complaint(), HasSubstr("--price-per-gpu-hour: expected a price above 0, got 0"));
}

}  // namespace
}  // namespace shardscope::testing

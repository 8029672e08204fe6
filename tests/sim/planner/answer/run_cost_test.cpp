#include "sim/planner/answer/run_cost.h"

#include <gtest/gtest.h>

namespace shardscope::planner {
namespace {

// 1,000 steps of 1 s: 1000 / 86400 days, 8 x 1000 / 3600 GPU-hours, at 3 each.
TEST(RunCost, OfAThousandSteps) {
  const auto cost = run_cost(Duration{1'000'000'000}, 8, 1'000'000,
                             {.train_tokens = 1e9, .price_per_gpu_hour = 3});
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->steps, 1000);
  EXPECT_NEAR(cost->days, 0.0115741, 1e-7);
  EXPECT_NEAR(cost->gpu_hours, 2.2222222, 1e-7);
  EXPECT_NEAR(*cost->price, 6.6666667, 1e-7);
}

// The last step is a whole one.
TEST(RunCost, CountsTheLastStepWhole) {
  EXPECT_EQ(run_cost(Duration{1}, 1, 300, {.train_tokens = 1000})->steps, 4);
}

TEST(RunCost, WithoutTokensOrPriceIsNotKnown) {
  EXPECT_FALSE(run_cost(Duration{1}, 1, 300, {.price_per_gpu_hour = 3}));
  EXPECT_FALSE(run_cost(Duration{1}, 1, 300, {.train_tokens = 1000})->price);
}

// 2 GPU-hours at 700 W: 1.4 kWh. An H100 SXM5's limit is 700 W (its data sheet).
TEST(Energy, IsAtMostThatOfThePowerLimit) {
  HardwareProfile profile;
  EXPECT_FALSE(most_energy_kwh(2, profile));
  profile.gpu = Gpu{.power_limit = {700}};
  EXPECT_NEAR(*most_energy_kwh(2, profile), 1.4, 1e-12);
}

// 10^6 tokens a step at 4 x 10^6 tokens/s: 250 ms.
TEST(SlowestStep, OfARate) {
  const auto slowest = slowest_step(8, 1'000'000, {.tokens_per_s = 4e6});
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->time, Duration{250'000'000});
  EXPECT_EQ(slowest->goal, "--at-least 4000000");
}

// 1,000 steps in a day: 86.4 s each. 96 units at 2 an hour are 48 GPU-hours, 6 hours of 8 GPUs and
// 21.6 s a step; of 2 GPUs 86.4 s.
TEST(SlowestStep, IsThatOfTheNarrowestGoal) {
  const Goals goals{.train_tokens = 1e9, .price_per_gpu_hour = 2, .deadline_days = 1, .budget = 96};
  const auto slowest = slowest_step(8, 1'000'000, goals);
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->time, Duration{21'600'000'000});
  EXPECT_EQ(slowest->goal, "--budget 96");
  EXPECT_EQ(slowest_step(1, 1'000'000, goals)->goal, "--deadline 1");
}

TEST(SlowestStep, OfNoGoalIsNone) { EXPECT_FALSE(slowest_step(8, 1'000'000, {})); }

}  // namespace
}  // namespace shardscope::planner

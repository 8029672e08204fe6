#include "sim/planner/answer/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

bool offloads(const Choice& choice) { return choice.offload != Offload::none; }

const auto put_off = Contains(Field(&Dropped::strategy, "offload"));

TEST(WorldsOf, AreHalvedOnlyWhereCostsCount) {
  Inputs inputs = tiny_plan();
  inputs.question.world = 12;
  EXPECT_THAT(worlds_of(inputs), ElementsAre(12));
  inputs.objective = Objective::memory;
  EXPECT_THAT(worlds_of(inputs), ElementsAre(12));
  inputs.objective = Objective::cost;
  EXPECT_THAT(worlds_of(inputs), ElementsAre(12, 6, 3));
}

// torchtitan shards over 2 ranks or more.
TEST(Weigh, SaysWhichRanksHaveNoWay) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {};
  inputs.question.torchtitan = true;
  inputs.objective = Objective::cost;
  const Basis basis(inputs);
  const Weighed weighed = weigh(basis, {});
  EXPECT_FALSE(weighed.ranked.empty());
  EXPECT_THAT(weighed.dropped, Contains(Field(&Dropped::strategy, "--world 1")));
}

// 8, 4, 2 and 1 ranks: none has a way, and of 1 rank another thing is said.
TEST(Weigh, WhereNoRanksHaveAWaySaysWhyThoseAskedForHaveNone) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {};
  inputs.question.torchtitan = true;
  inputs.question.world = 8;
  inputs.question.tokens_per_batch = 8 * inputs.question.training.length;
  inputs.question.precisions = {TrainingPrecision::fp16_mixed};
  inputs.objective = Objective::cost;
  const Basis basis(inputs);
  try {
    weigh(basis, {});
    FAIL() << "weighed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--precision: torchtitan has no loss scaler"));
  }
}

TEST(Weigh, PutsOffWhatOffloads) {
  const Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  const Weighed weighed = weigh(basis, {});
  EXPECT_FALSE(weighed.offloads);
  EXPECT_TRUE(std::none_of(weighed.choices.begin(), weighed.choices.end(), offloads));
  EXPECT_THAT(weighed.dropped, put_off);
  EXPECT_EQ(weighed.ranked.size() + weighed.others.size(), weighed.choices.size());
}

// Of the profiles, those with node.host_memory_bandwidth time the host's update.
TEST(Weigh, SaysThatTheUpdateIsNotTimedOnlyWhereItIsNot) {
  const auto why = [](const Inputs& inputs) {
    const Basis basis(inputs);
    for (const Dropped& dropped : weigh(basis, {}).dropped)
      if (dropped.strategy == "offload") return dropped.why;
    return std::string();
  };
  EXPECT_THAT(why(tiny_plan()), HasSubstr("is not timed, as the profile has no host_memory_bandwidth: weighed only"));
  Inputs timed = tiny_plan();
  timed.profile = find_hardware_profile("h100_sxm", "--cluster");
  EXPECT_THAT(why(timed),
              AllOf(HasSubstr("takes longer: weighed only"), Not(HasSubstr("not timed"))));
}

/// The least memory that a choice needs that keeps everything on the device.
Bytes least_without_offload(const Inputs& inputs) {
  const Basis basis(inputs);
  Bytes least = inputs.profile.memory;
  for (const Choice& choice : choices_of(inputs, inputs.question.world).choices)
    if (!offloads(choice)) least = std::min(least, try_out(choice, basis.trials).needed());
  return least;
}

// A byte less than the most frugal choice needs: only what offloads can fit.
TEST(Weigh, OffloadsWhereNothingElseFits) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {Runtime::fsdp2};
  inputs.profile.memory = least_without_offload(inputs) - Bytes{1};
  const Basis basis(inputs);
  const Weighed weighed = weigh(basis, {});
  EXPECT_TRUE(weighed.offloads);
  EXPECT_THAT(weighed.dropped, put_off);
  ASSERT_FALSE(weighed.ranked.empty());
  for (const std::size_t ranked : weighed.ranked) EXPECT_TRUE(offloads(weighed.choices[ranked]));
}

TEST(Weigh, CostsAreWeighedOnFewerRanksToo) {
  Inputs inputs = tiny_plan();
  inputs.question.runtimes = {Runtime::ddp};
  inputs.objective = Objective::cost;
  const Basis basis(inputs);
  const Weighed weighed = weigh(basis, {});
  for (const int world : {4, 2, 1})
    EXPECT_THAT(weighed.choices, Contains(Field(&Choice::mesh, Mesh{.replicate = world})));
  EXPECT_EQ(weighed.ranked.size(), 3u);  // the best DDP on each
}

}  // namespace
}  // namespace shardscope::planner

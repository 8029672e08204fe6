#include "sim/planner/answer/given.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/planner/answer/changes.h"
#include "sim/planner/choice_prediction.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class GivenTest : public ::testing::Test {
 protected:
  GivenTest() { inputs_.question.runtimes = {Runtime::fsdp2}; }

  GivenPlace place_of_choice(const Choice& choice) const {
    const Basis basis(inputs_);
    return place_of({.name = "mine.yaml", .training = pytorch_training(choice, basis.trials)},
                    choices_of(inputs_, 4).choices, basis, {});
  }

  /// The fastest step among the choices that are so many settings away.
  Duration fastest_at(const Choice& from, std::size_t changes) const {
    const Basis basis(inputs_);
    Duration fastest = 1000_s;
    for (const Choice& choice : choices_of(inputs_, 4).choices)
      if (changes_between(from, choice).size() == changes)
        fastest = std::min(fastest, summary_of(choice, basis.trials).step_time);
    return fastest;
  }

  Inputs inputs_ = tiny_plan();
};

TEST_F(GivenTest, IsPredictedAsItsChoiceIs) {
  const Basis basis(inputs_);
  const GivenPlace place = place_of_choice(tiny_choice());
  EXPECT_EQ(place.name, "mine.yaml");
  EXPECT_EQ(place.strategy, "fsdp2 full_shard, batch 2, bf16_mixed");
  EXPECT_THAT(place.refused, IsEmpty());
  EXPECT_EQ(place.summary.step_time, summary_of(tiny_choice(), basis.trials).step_time);
}

// Checkpointing runs the blocks again; one change that is worth a percent is to turn it off or
// another one that is as good.
TEST_F(GivenTest, OneChangeIsPreferredToTwo) {
  Choice slow = tiny_choice();
  slow.checkpointing.every = 1;
  const GivenPlace place = place_of_choice(slow);
  ASSERT_TRUE(place.changed);
  EXPECT_THAT(place.changes, SizeIs(1));
  EXPECT_EQ(place.changes, changes_between(slow, place.changed->choice));
  EXPECT_EQ(place.changed->summary.step_time, fastest_at(slow, 1));
}

// A file of accelerate cannot be changed into torchtitan's loop, nor into a pipeline.
TEST_F(GivenTest, IsNotChangedIntoAnotherLoop) {
  inputs_.question.torchtitan = true;
  inputs_.question.runtimes = {};
  inputs_.question.world = 4;
  Choice slow = tiny_choice();
  slow.checkpointing.every = 1;
  EXPECT_FALSE(place_of_choice(slow).changed);
}

TEST_F(GivenTest, WhatDoesNotFitIsChangedIntoWhatDoes) {
  const Basis basis(inputs_);
  inputs_.profile.memory = try_out(tiny_choice(), basis.trials).needed() - Bytes{1};
  const GivenPlace place = place_of_choice(tiny_choice());
  EXPECT_FALSE(place.summary.fits);
  ASSERT_TRUE(place.changed);
  EXPECT_TRUE(place.changed->summary.fits);
}

TEST_F(GivenTest, CountsThoseThatAreFaster) {
  GivenPlace given;
  given.summary = summary_with({20, 0, 1_GiB});
  const std::vector<Candidate> candidates{candidate_with({10, 0, 1_GiB}),
                                          candidate_with({20, 0, 1_GiB}),
                                          candidate_with({30, 0, 1_GiB})};
  EXPECT_EQ(faster_than(given, candidates), 1u);
}

}  // namespace
}  // namespace shardscope::planner

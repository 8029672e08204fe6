#include "sim/planner/answer/chosen.h"

#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

class ChosenTest : public ::testing::Test {
 protected:
  ChosenTest() : places_(3, candidate_with({10, 0, 1_GiB})) {
    for (std::size_t i = 1; i < places_.size(); ++i) places_[i].ties = true;
  }
  /// accelerate's file does not say it.
  static void reduce_every_micro_batch(Candidate& candidate) {
    candidate.choice.micro_batches = 2;
    candidate.choice.reduces_every_micro_batch = true;
  }
  /// 1 GiB is the least that is usual.
  static void leave_half_a_gibibyte(Candidate& candidate) {
    candidate.summary.device_memory = candidate.summary.memory.peak_reserved + 512_MiB;
  }
  Chosen chosen() const { return chosen_of(places_, written_from(inputs_)); }

  Inputs inputs_ = tiny_plan();
  std::vector<Candidate> places_;
};

TEST_F(ChosenTest, IsTheFirstUnlessSomethingSpeaksAgainstIt) {
  EXPECT_EQ(chosen().candidate, 0u);
  EXPECT_EQ(chosen().why_not_first, "");
}

TEST_F(ChosenTest, PassesOverWhatNoFileSays) {
  reduce_every_micro_batch(places_[0]);
  reduce_every_micro_batch(places_[1]);
  EXPECT_EQ(chosen().candidate, 2u);
  EXPECT_EQ(chosen().why_not_first, "no file says \"gradients reduced in every micro-batch\"");
}

TEST_F(ChosenTest, PassesOverASmallMarginFirst) {
  leave_half_a_gibibyte(places_[0]);
  reduce_every_micro_batch(places_[1]);
  reduce_every_micro_batch(places_[2]);
  EXPECT_EQ(chosen().candidate, 1u);
  EXPECT_EQ(chosen().why_not_first, "it has 512 MiB to spare");
}

TEST_F(ChosenTest, IsNotOneThatIsSlower) {
  reduce_every_micro_batch(places_[0]);
  places_[1].ties = places_[2].ties = false;
  EXPECT_EQ(chosen().candidate, 0u);
}

}  // namespace
}  // namespace shardscope::planner

#include "sim/planner/answer/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::Field;

constexpr std::size_t index_of(CostGroup group) { return static_cast<std::size_t>(group); }

// 6% where products are 10% slower: 60% of the step; 10% where the network is 50% slower: 20%; a
// thousandth of it is the host's.
TEST(TimeShares, AreMovesForEachSpread) {
  StepTimeMoves moves;
  CostSpreads spreads;
  const auto set = [&](CostGroup group, double move, double spread) {
    moves.of_group[index_of(group)] = move;
    spreads.of_group[index_of(group)] = spread;
  };
  set(CostGroup::network, 0.1, 0.5);
  set(CostGroup::products, 0.06, 0.1);
  set(CostGroup::host, 0.0001, 0.1);
  const std::vector<TimeShare> shares = time_shares(moves, spreads);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].group, CostGroup::products);
  EXPECT_NEAR(shares[0].share, 0.6, 1e-12);
  EXPECT_EQ(shares[1].group, CostGroup::network);
  EXPECT_NEAR(shares[1].share, 0.2, 1e-12);
}

TEST(LongestThatFits, IsFoundInEighths) {
  const auto longest = [](std::int64_t fitting, std::int64_t most = 10'000) {
    return longest_that_fits(800, most, [&](std::int64_t length) { return length <= fitting; });
  };
  EXPECT_EQ(longest(5'000), 1600);
  EXPECT_EQ(longest(1'599), 1500);
  EXPECT_EQ(longest(1'099), 1000);
  EXPECT_EQ(longest(800), 800);
  EXPECT_EQ(longest(5'000, 800), 800);
  EXPECT_EQ(longest(5'000, 1'250), 1250);
}

// What is found fits, and an eighth more does not.
TEST(Limits, OfADeviceThatTheChoiceAllButFills) {
  Inputs inputs = tiny_plan();
  Choice choice = tiny_choice();
  choice.batch = 32;  // so that activations are most of it
  const Candidate before = candidate_of(choice, Basis(inputs));
  inputs.profile.memory = needed_memory(before.summary) + 4_MiB;
  const Basis basis(inputs);
  const Candidate candidate = candidate_of(choice, basis);
  const Limits limits = limits_of(candidate, basis, {});
  ASSERT_TRUE(limits.longest);
  EXPECT_GE(*limits.longest, 64);
  EXPECT_LT(*limits.longest, 128);
  EXPECT_FALSE(limits.longer_untried);
  const Bytes held = needed_memory(candidate.summary) - candidate.summary.memory.outside;
  EXPECT_NEAR(*limits.held_more,
              static_cast<double>((4_MiB).count) / static_cast<double>(held.count), 1e-9);
  EXPECT_THAT(limits.phases, Contains(Field(&PhaseNeed::phase, "save")));
}

TEST(Limits, AStopLeavesOutWhatHasToBePlayed) {
  const Inputs inputs = tiny_plan();
  const Basis basis(inputs);
  std::stop_source source;
  const Candidate candidate = candidate_of(tiny_choice(), basis);
  source.request_stop();
  const Limits limits = limits_of(candidate, basis, source.get_token());
  EXPECT_FALSE(limits.longest);
  EXPECT_TRUE(limits.phases.empty());
  EXPECT_FALSE(limits.time.empty());
}

}  // namespace
}  // namespace shardscope::planner

#include "sim/planner/answer/curve.h"

#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

Candidate on(int world, std::int64_t step_ms, double tokens_per_s) {
  Candidate candidate = candidate_with({step_ms, 0, 1_GiB});
  candidate.choice.mesh.shard = world;
  candidate.summary.tokens_per_s = tokens_per_s;
  return candidate;
}

TEST(Curve, HasTheFastestOfEachNumberOfRanks) {
  const Candidate candidates[] = {on(16, 30, 200), on(8, 50, 120), on(16, 40, 150)};
  const std::vector<CurvePoint> curve = curve_of(candidates);
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0].world, 8);
  EXPECT_EQ(curve[0].efficiency_share, 1);
  EXPECT_EQ(curve[1].world, 16);
  EXPECT_DOUBLE_EQ(curve[1].efficiency_share, (200.0 / 16) / (120.0 / 8));
}

TEST(Curve, OfOneNumberOfRanksIsNone) {
  const Candidate candidates[] = {on(8, 50, 120), on(8, 40, 150)};
  EXPECT_TRUE(curve_of(candidates).empty());
  EXPECT_FALSE(bend_of({}));
}

// 100 to 180 gains 80 of the 100 that 8 more ranks could add; 180 to 240 gains 60 of 180.
TEST(Curve, BendsWhereLessThanHalfIsGained) {
  const Candidate candidates[] = {on(8, 50, 100), on(16, 40, 180), on(32, 30, 240)};
  EXPECT_EQ(bend_of(curve_of(candidates)), 16);
  EXPECT_EQ(bend_of(curve_of(std::span(candidates).first(2))), 16);
}

}  // namespace
}  // namespace shardscope::planner

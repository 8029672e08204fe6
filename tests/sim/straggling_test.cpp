// Waits worked out by hand.
#include "sim/engine/straggling.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

/// After 10 us of compute the last rank comes 1 us late, after 40 us 2 us.
Straggling after(Duration compute) {
  Straggling ranks({{10_us, 1_us}, {40_us, 2_us}});
  ranks.computed(compute);
  return ranks;
}

TEST(Straggling, IsAsMeasuredWhereItWas) {
  EXPECT_EQ(after(10_us).wait(), 1_us);
  EXPECT_EQ(after(40_us).wait(), 2_us);
}

TEST(Straggling, IsStraightInLogLogBetween) {
  // Four times the compute, twice the wait: the square root. 20 us: 1 us x sqrt(2), and not 1.33
  // us.
  EXPECT_EQ(after(20_us).wait(), 1414_ns);
}

TEST(Straggling, IsInProportionBelowAndAbove) {
  EXPECT_EQ(after(5_us).wait(), 500_ns);
  EXPECT_EQ(after(80_us).wait(), 4_us);
}

TEST(Straggling, BeginsAnewWhereRanksMeet) {
  Straggling ranks = after(40_us);
  ranks.meet();
  EXPECT_EQ(ranks.wait(), 0_us);
  ranks.computed(4_us);
  ranks.computed(6_us);
  EXPECT_EQ(ranks.wait(), 1_us);
}

TEST(Straggling, OfRanksThatWereNotMeasuredIsNothing) {
  Straggling ranks;
  ranks.computed(1_s);
  EXPECT_EQ(ranks.wait(), 0_us);
}

}  // namespace
}  // namespace shardscope

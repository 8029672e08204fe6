#include <gtest/gtest.h>

#include <vector>

#include "core/base/median.h"

namespace shardscope {
namespace {

TEST(Median, IsTheMiddleOneOfAnOddNumber) {
  EXPECT_EQ(median(std::vector<Duration>{9_ns, 1_ns, 4_ns}), 4_ns);
}

TEST(Median, IsBetweenTheMiddleTwoOfAnEvenNumber) {
  EXPECT_EQ(median(std::vector<Duration>{100_ns, 2_ns, 6_ns, 1_ns}), 4_ns);
}

TEST(Median, OfNothingIsZero) { EXPECT_EQ(median(std::vector<Duration>{}), 0_ns); }

}  // namespace
}  // namespace shardscope

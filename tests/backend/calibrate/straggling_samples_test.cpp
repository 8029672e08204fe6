#include "backend/calibrate/straggling_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StragglingSamples, AreHowMuchLongerTheLastRankTakesThanTheMean) {
  // Rank 0 takes 1 s and 4 s, rank 1 takes 3 s and 2 s: the last one 1 s longer each time.
  const std::array seconds{1.0, 4.0, 3.0, 2.0};
  EXPECT_EQ(straggling_of(seconds, 2), (StragglingSample{2500_ms, 1000_ms}));
  // Of three parts, in one of which rank 0 is interrupted for 10 s: 0.5, 5 and 1 s longer.
  const std::array interrupted{2.0, 11.0, 3.0, 1.0, 1.0, 1.0};
  EXPECT_EQ(straggling_of(interrupted, 3).wait, 1000_ms);
  // Of the whole both take 5 s.
  const std::array whole{5.0, 5.0};
  EXPECT_EQ(straggling_of(whole, 1), (StragglingSample{5000_ms, 0_ms}));
}

TEST(StragglingSamples, ArePooledDownToAQuarterOfTheLongest) {
  EXPECT_THAT(pooled({{40_ms, 9_ms}, {9_ms, 1_ms}, {36_ms, 8_ms}, {10_ms, 100_ms}, {11_ms, 3_ms}}),
              ElementsAre(StragglingSample{9_ms, 1_ms}, StragglingSample{23500_us, 8500_us}));
  EXPECT_THAT(pooled({}), IsEmpty());
}

}  // namespace
}  // namespace shardscope

#include "traces/axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> result;
  for (const Tick& tick : axis.ticks) result.push_back(tick.label);
  return result;
}

TEST(Axis, PutsTicksAtRoundValuesOfOneUnit) {
  const Axis axis = byte_axis(5_MiB, 0, 100, 5);
  EXPECT_EQ(axis.unit, "MiB");
  EXPECT_THAT(labels(axis), testing::ElementsAre("0", "1", "2", "3", "4", "5"));
  EXPECT_EQ(axis.ticks[2].value, 2097152);
}

TEST(Axis, StepsByOneTwoOrFive) {
  EXPECT_THAT(labels(time_axis(27_ms, 0, 1, 8)),
              testing::ElementsAre("0", "5", "10", "15", "20", "25"));
  EXPECT_THAT(labels(time_axis(900_us, 0, 1, 5)),
              testing::ElementsAre("0", "200", "400", "600", "800"));
  EXPECT_THAT(labels(time_axis(1500_ms, 0, 1, 8)),
              testing::ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4"));
}

TEST(Axis, MapsValuesToPixelsEitherWay) {
  const Axis up = byte_axis(100_B, 500, 100, 5);
  EXPECT_DOUBLE_EQ(up.at(0), 500);
  EXPECT_DOUBLE_EQ(up.at(25), 400);
  EXPECT_DOUBLE_EQ(up.at(100), 100);
}

TEST(Axis, OfNothingHasALength) { EXPECT_EQ(time_axis(0_ns, 0, 1, 5).end, 1); }

}  // namespace
}  // namespace shardscope

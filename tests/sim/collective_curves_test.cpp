#include "sim/cost/collective_curves.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

CollectiveSample gather(int ranks, Bytes bytes, Duration time) {
  return {.kind = OperationKind::all_gather, .ranks = ranks, .bytes = bytes, .time = time};
}

// Straight in log-log between 1 and 16 MiB: 4 MiB in the middle takes sqrt(100 us x 1600 us).
TEST(CollectiveCurves, PredictEachSizeFromTheOthersAlone) {
  HardwareProfile profile;
  profile.collectives = {gather(2, 16_MiB, 1600_us), gather(2, 1_MiB, 100_us),
                         gather(2, 4_MiB, 500_us), gather(4, 1_MiB, 70_us)};
  const auto curves = collective_curves(profile);
  ASSERT_EQ(curves.size(), 2u);
  ASSERT_EQ(curves[0].points.size(), 3u);
  EXPECT_EQ(curves[0].points[1].bytes, 4_MiB);
  EXPECT_EQ(curves[0].points[1].profiled.value, 500_us);
  ASSERT_TRUE(curves[0].points[1].predicted);
  EXPECT_NEAR(static_cast<double>(curves[0].points[1].predicted->value.ns), 400'000, 2);
}

TEST(CollectiveCurves, PredictNothingFromNothing) {
  HardwareProfile profile;
  profile.collectives = {gather(4, 1_MiB, 70_us)};
  EXPECT_FALSE(collective_curves(profile)[0].points[0].predicted);
}

}  // namespace
}  // namespace shardscope

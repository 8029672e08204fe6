#include "gui/data/time_map.h"

#include <gtest/gtest.h>

namespace shardscope::gui {
namespace {

TEST(TimeMap, AnOriginIsTakenAway) {
  const TimeMap map(1000);
  EXPECT_DOUBLE_EQ(map.axis_of(1500), 500);
  EXPECT_DOUBLE_EQ(map.clock_of(500), 1500);
}

TEST(TimeMap, BetweenKnotsTimesAreStretched) {
  const TimeMap map(
      {{.clock = 100, .axis = 0}, {.clock = 200, .axis = 50}, {.clock = 300, .axis = 250}});
  EXPECT_DOUBLE_EQ(map.axis_of(150), 25);
  EXPECT_DOUBLE_EQ(map.axis_of(250), 150);
  EXPECT_DOUBLE_EQ(map.clock_of(150), 250);
}

TEST(TimeMap, BeyondItsEndsTimeRunsOn) {
  const TimeMap map({{.clock = 100, .axis = 0}, {.clock = 200, .axis = 50}});
  EXPECT_DOUBLE_EQ(map.axis_of(90), -10);
  EXPECT_DOUBLE_EQ(map.axis_of(230), 80);
  EXPECT_DOUBLE_EQ(map.clock_of(80), 230);
}

TEST(TimeMap, KnotsThatDoNotIncreaseAreLeftOut) {
  const TimeMap map({{.clock = 0, .axis = 0},
                     {.clock = 50, .axis = 0},
                     {.clock = 40, .axis = 10},
                     {.clock = 100, .axis = 100}});
  EXPECT_EQ(map.knots().size(), 3u);
  for (double axis = 0; axis < 100; axis += 3)
    EXPECT_NEAR(map.axis_of(map.clock_of(axis)), axis, 1e-9);
}

}  // namespace
}  // namespace shardscope::gui

#include "gui/data/time_range.h"

#include <gtest/gtest.h>

#include "gui/data/time_scale.h"

namespace shardscope::gui {
namespace {

TEST(TimeRange, ZoomKeepsTheCentreWhereItIs) {
  const TimeRange half = zoomed({.begin = 100, .end = 300}, 0.5, 150);
  EXPECT_EQ(half, (TimeRange{.begin = 125, .end = 225}));
  const TimeScale before{.range = {.begin = 100, .end = 300}, .width = 1000};
  const TimeScale after{.range = half, .width = 1000};
  EXPECT_DOUBLE_EQ(before.x_of(150), after.x_of(150));
}

TEST(TimeRange, PansByAShareOfItsLength) {
  EXPECT_EQ(panned({.begin = 100, .end = 300}, 0.25), (TimeRange{.begin = 150, .end = 350}));
}

TEST(TimeRange, IsMovedBackIntoItsLimits) {
  const TimeRange limits{.begin = 0, .end = 1000};
  EXPECT_EQ(clamped({.begin = -50, .end = 150}, limits), (TimeRange{.begin = 0, .end = 200}));
  EXPECT_EQ(clamped({.begin = 900, .end = 1100}, limits), (TimeRange{.begin = 800, .end = 1000}));
  EXPECT_EQ(clamped({.begin = -500, .end = 1500}, limits), limits);
}

TEST(TimeRange, IsNeverShorterThanCanBeShown) {
  const TimeRange range = clamped({.begin = 500, .end = 501}, {.begin = 0, .end = 1000});
  EXPECT_DOUBLE_EQ(range.length(), shortest_range_ns);
}

TEST(TimeScale, ThereAndBackIsTheSameTime) {
  const TimeScale scale{.range = {.begin = 1e9, .end = 1e9 + 640}, .left = 120, .width = 1280};
  EXPECT_DOUBLE_EQ(scale.ns_per_pixel(), 0.5);
  EXPECT_DOUBLE_EQ(scale.x_of(1e9), 120);
  for (double x = 120; x < 1400; x += 7) EXPECT_NEAR(scale.x_of(scale.time_at(x)), x, 1e-6);
}

}  // namespace
}  // namespace shardscope::gui

#include "gui/data/limit_labels.h"

#include <gtest/gtest.h>

namespace shardscope::gui {
namespace {

TEST(LimitLabels, StandBelowTheirLinesAtTheRight) {
  const auto places = limit_label_places(
      {{.y = 80, .width = 60, .height = 14}, {.y = 10, .width = 90, .height = 14}},
      {0, 0, 400, 200});
  EXPECT_EQ(places[0], (PlaneRectangle{340, 81, 60, 14}));
  EXPECT_EQ(places[1], (PlaneRectangle{310, 11, 90, 14}));
}

// Arena and capacity are both at the top of a plot that is 20 pixels high.
TEST(LimitLabels, OfLinesCloseToEachOtherStandBesideEachOther) {
  const PlaneRectangle plot{100, 300, 400, 20};
  const auto places = limit_label_places(
      {{.y = 302, .width = 60, .height = 14}, {.y = 300, .width = 90, .height = 14}}, plot);
  EXPECT_FALSE(places[0].meets(places[1]));
  for (const PlaneRectangle& place : places) EXPECT_TRUE(place.lies_in(plot));
}

TEST(LimitLabels, OfALineAtTheBottomStandsAboveIt) {
  const auto places = limit_label_places({{.y = 195, .width = 60, .height = 14}}, {0, 0, 400, 200});
  EXPECT_EQ(places[0].top, 195 - 1 - 14);
}

TEST(LimitLabels, OfThreeLinesNoneLiesOnAnother) {
  const LimitLine line{.y = 0, .width = 60, .height = 14};
  const auto places = limit_label_places({line, line, line}, {0, 0, 400, 200});
  EXPECT_FALSE(places[0].meets(places[2]));
  EXPECT_FALSE(places[1].meets(places[2]));
}

}  // namespace
}  // namespace shardscope::gui

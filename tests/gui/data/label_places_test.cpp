#include "gui/data/label_places.h"

#include <gtest/gtest.h>

#include "gui/data/round_ticks.h"

namespace shardscope::gui {
namespace {

TEST(LabelPlaces, TheFirstStandsAtTheRightOfItsPoint) {
  const auto places =
      label_places({{.x = 50, .y = 50, .radius = 5, .width = 30, .height = 10}}, {0, 0, 200, 100});
  EXPECT_EQ(places[0], (PlaneRectangle{58, 45, 30, 10}));
}

TEST(LabelPlaces, NoneLiesOnAnotherOrOnAMarkOrOutside) {
  std::vector<LabelledPoint> points;
  for (int i = 0; i < 12; ++i)
    points.push_back(
        {.x = 60.0 + 7 * i, .y = 50.0 + 3 * i, .radius = 4, .width = 40, .height = 12});
  const PlaneRectangle bounds{0, 0, 300, 200};
  const auto places = label_places(points, bounds);
  int shown = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    ++shown;
    EXPECT_TRUE(places[i]->lies_in(bounds));
    for (std::size_t j = 0; j < places.size(); ++j) {
      EXPECT_FALSE(j != i && places[j] && places[i]->meets(*places[j]));
      const LabelledPoint& p = points[j];
      EXPECT_FALSE(places[i]->meets({p.x - 4, p.y - 4, 8, 8}));
    }
  }
  EXPECT_GE(shown, 6);
}

TEST(LabelPlaces, ALabelKeepsOffALine) {
  const PlaneRectangle line{0, 49, 200, 2};
  const auto places = label_places({{.x = 50, .y = 50, .radius = 5, .width = 30, .height = 10}},
                                   {0, 0, 200, 100}, {line});
  ASSERT_TRUE(places[0]);
  EXPECT_FALSE(places[0]->meets(line));
}

TEST(LabelPlaces, WithoutRoomThereIsNone) {
  EXPECT_FALSE(
      label_places({{.x = 5, .y = 5, .radius = 5, .width = 80, .height = 10}}, {0, 0, 50, 50})[0]);
}

TEST(RoundTicks, AreMultiplesOfRoundValuesWithinTheRange) {
  EXPECT_EQ(round_ticks(12, 31, 4), (std::vector<double>{15, 20, 25, 30}));
  EXPECT_EQ(round_ticks(-0.5, 2.2, 3), (std::vector<double>{0, 1, 2}));
  EXPECT_TRUE(round_ticks(3, 3, 4).empty());
}

}  // namespace
}  // namespace shardscope::gui

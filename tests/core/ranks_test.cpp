#include "core/base/ranks.h"

#include <gtest/gtest.h>

#include <map>

namespace shardscope {
namespace {

TEST(Ranks, EvenlySpacedOnesAreTheListThatTheyStandFor) {
  EXPECT_EQ(Ranks::spaced(3, 2, 4).list(), (std::vector<int>{3, 5, 7, 9}));
  EXPECT_EQ(Ranks::up_to(3).list(), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(Ranks::up_to(0).empty());
}

TEST(Ranks, AListIsEqualToTheSpacingThatItShows) {
  EXPECT_EQ(Ranks({1, 5, 9}), Ranks::spaced(1, 4, 3));
  EXPECT_EQ(Ranks({7}), Ranks::spaced(7, 3, 1));  // one rank has no spacing
  EXPECT_NE(Ranks({1, 5, 9}), Ranks({1, 5, 10}));
  EXPECT_EQ(Ranks({1, 5, 10}).list(), (std::vector<int>{1, 5, 10}));
  EXPECT_FALSE(Ranks({1, 5, 10}).stride());
}

TEST(Ranks, FindsTheirPlaces) {
  const Ranks spaced = Ranks::spaced(3, 2, 4);
  EXPECT_EQ(spaced.place_of(7), 2u);
  EXPECT_FALSE(spaced.place_of(6));
  EXPECT_FALSE(spaced.place_of(2));   // -1 / 2 is 0, which is not its place
  EXPECT_FALSE(spaced.place_of(11));  // one after the last
  EXPECT_EQ(Ranks({4, 1, 2}).place_of(2), 2u);
  EXPECT_FALSE(Ranks({4, 1, 2}).place_of(3));
  EXPECT_FALSE(Ranks().place_of(0));
}

TEST(Ranks, APartIsEvenlySpacedAsTheWhole) {
  EXPECT_EQ(Ranks::spaced(3, 2, 4).part(1, 2), Ranks({5, 7}));
  EXPECT_EQ(Ranks({4, 1, 2}).part(1, 2), Ranks({1, 2}));
}

TEST(Ranks, AMillionCostsNoMoreThanTwo) {
  const Ranks million = Ranks::up_to(1'000'000);
  EXPECT_EQ(million.size(), 1'000'000u);
  EXPECT_EQ(million.back(), 999'999);
  const std::map<Ranks, int> keyed{{million, 1}, {Ranks::up_to(2), 2}};
  EXPECT_EQ(keyed.at(Ranks::up_to(1'000'000)), 1);
}

}  // namespace
}  // namespace shardscope

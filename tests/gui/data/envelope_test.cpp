#include "gui/data/envelope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::gui {
namespace {

using ::testing::ElementsAre;
using Heights = std::vector<std::optional<double>>;

TEST(UpperEnvelope, ClosesValleysOfTwiceTheReach) {
  EXPECT_THAT(upper_envelope({5, 1, 5, 1, 1, 5}, 1), ElementsAre(5, 5, 5, 5, 5, 5));
  EXPECT_THAT(upper_envelope({5, 1, 1, 1, 5}, 1), ElementsAre(5, 1, 1, 1, 5));
}

TEST(UpperEnvelope, PeaksKeepHeightAndWidth) {
  EXPECT_THAT(upper_envelope({1, 1, 1, 9, 1, 1, 1}, 2), ElementsAre(1, 1, 1, 9, 1, 1, 1));
}

TEST(UpperEnvelope, DoesNotReachOverEmptyColumns) {
  EXPECT_EQ(upper_envelope({5, std::nullopt, 1, 3}, 2), (Heights{5, std::nullopt, 3, 3}));
}

TEST(UpperEnvelope, OfNothingIsNothing) { EXPECT_EQ(upper_envelope({}, 2), Heights{}); }

}  // namespace
}  // namespace shardscope::gui

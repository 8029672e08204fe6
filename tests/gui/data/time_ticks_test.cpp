#include "gui/data/time_ticks.h"

#include <gmock/gmock.h>

namespace shardscope::gui {
namespace {

std::vector<std::string> labels(TimeRange range, int wanted) {
  std::vector<std::string> result;
  for (const TimeTicks::Tick& tick : time_ticks(range, wanted).ticks) result.push_back(tick.label);
  return result;
}

TEST(TimeTicks, StandAtRoundTimesInOneUnit) {
  EXPECT_THAT(labels({.begin = 0, .end = 1e6}, 5),
              ::testing::ElementsAre("0.0 ms", "0.2 ms", "0.4 ms", "0.6 ms", "0.8 ms"));
}

TEST(TimeTicks, TellNeighboursApartFarFromZero) {
  EXPECT_THAT(labels({.begin = 5'000'000'000, .end = 5'000'000'020}, 2),
              ::testing::ElementsAre("5000000.00 us", "5000000.01 us"));
}

TEST(TimeTicks, MayBeginBeforeZero) {
  EXPECT_THAT(labels({.begin = -2e9, .end = 3e9}, 5),
              ::testing::ElementsAre("-2 s", "-1 s", "0 s", "1 s", "2 s"));
}

}  // namespace
}  // namespace shardscope::gui

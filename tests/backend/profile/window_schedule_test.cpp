#include "backend/profile/window_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/executor/stop_requests.h"
#include "backend/profile/rank_clock.h"
#include "core/native/most_profiled_steps.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;

/// The steps of a run of `steps` that lie in a window.
std::vector<std::int64_t> profiled(WindowSchedule schedule, std::int64_t steps) {
  std::vector<std::int64_t> profiled;
  for (std::int64_t step = 1; step <= steps; ++step)
    if (schedule.at(step)) profiled.push_back(step);
  return profiled;
}

TEST(WindowSchedule, HasTheJobsWindows) {
  EXPECT_THAT(profiled({{.start = 3, .steps = 2, .every = 4}, 12}, 12),
              ElementsAre(3, 4, 7, 8, 11, 12));
  EXPECT_THAT(profiled({{.start = 3, .steps = 2, .every = 0}, 12}, 12), ElementsAre(3, 4));
  EXPECT_THAT(profiled({{.start = 0, .steps = 2, .every = 0}, 12}, 12), ElementsAre());
}

TEST(WindowSchedule, WindowsMayFollowEachOther) {
  WindowSchedule schedule({.start = 1, .steps = 2, .every = 2}, 10);
  EXPECT_EQ(schedule.at(1), (StepRange{1, 2}));
  EXPECT_EQ(schedule.at(2), (StepRange{1, 2}));
  EXPECT_EQ(schedule.at(3), (StepRange{3, 4}));
}

TEST(WindowSchedule, EndsWithTheRun) {
  WindowSchedule schedule({.start = 9, .steps = 5, .every = 0}, 10);
  EXPECT_EQ(schedule.at(9), (StepRange{9, 10}));
}

TEST(WindowSchedule, BeginsWithTheNextStepWhenAsked) {
  WindowSchedule schedule({}, 10);
  EXPECT_FALSE(schedule.at(3));
  EXPECT_EQ(schedule.ask(4, 3), (StepRange{4, 6}));
  EXPECT_EQ(schedule.at(4), (StepRange{4, 6}));
  EXPECT_EQ(schedule.at(6), (StepRange{4, 6}));
  EXPECT_FALSE(schedule.at(7));
}

TEST(WindowSchedule, HasOneOpenAtATime) {
  WindowSchedule schedule({.start = 5, .steps = 2, .every = 0}, 20);
  EXPECT_TRUE(schedule.ask(2, 4));
  EXPECT_FALSE(schedule.ask(4, 3)) << "steps 2-5 are open";
  EXPECT_EQ(schedule.at(5), (StepRange{2, 5})) << "the job's own does not begin inside of it";
  EXPECT_EQ(schedule.ask(6, 1), (StepRange{6, 6})) << "right behind it";
}

TEST(WindowSchedule, HasNoneBehindTheLastStep) {
  WindowSchedule schedule({}, 10);
  EXPECT_FALSE(schedule.ask(11, 5));
}

TEST(StopRequests, AddUpExactlyOverAMillionRanks) {
  double sum = to_sum({.stop = false, .profile = true, .profile_steps = most_profiled_steps});
  for (int rank = 1; rank < 1 << 20; ++rank) sum += to_sum({.stop = true, .profile = true});
  EXPECT_EQ(requests_of_sum(sum), (StopRequests{true, true, most_profiled_steps}));
  EXPECT_EQ(sum - to_sum({.stop = true}), sum - 1) << "no digit is lost";
}

TEST(StopRequests, AreApart) {
  EXPECT_EQ(to_sum({}), 0);
  EXPECT_EQ(requests_of_sum(to_sum({.stop = true}) * 3), (StopRequests{.stop = true}));
  EXPECT_EQ(requests_of_sum(to_sum({.profile = true}) * 3), (StopRequests{.profile = true}));
  EXPECT_EQ(requests_of_sum(to_sum({.profile_steps = 7})), (StopRequests{.profile_steps = 7}));
}

TEST(RankClock, TakesTheShortestRoundTripForItsMiddle) {
  // The other clock is 5,000 ahead: asked at 110 of ours, the middle of 100 and 120, it answers
  // 5,110. The longer trip was held up on its way back and would say 4,800.
  const std::vector<ClockExchange> exchanges{{0, 5000 + 10, 420}, {100, 5110, 120}};
  EXPECT_EQ(offset_of(exchanges), (ClockOffset{.offset_ns = 5000, .residual = 10_ns}));
}

TEST(RankClock, IsWrongByNoMoreThanItsResidual) {
  // The same clock, but all of the way was there: answered at 120 of ours.
  const std::vector<ClockExchange> exchanges{{100, 5120, 120}};
  const ClockOffset found = offset_of(exchanges);
  EXPECT_EQ(found.offset_ns - 5000, found.residual.ns);
}

TEST(RankClock, RoundsAnOddTripsHalfUp) {
  const std::vector<ClockExchange> exchanges{{100, 5110, 121}};
  EXPECT_EQ(offset_of(exchanges), (ClockOffset{.offset_ns = 5000, .residual = 11_ns}));
}

}  // namespace
}  // namespace shardscope

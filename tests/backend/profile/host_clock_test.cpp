#include "backend/profile/host_clock.h"

#include <gtest/gtest.h>

#include <array>

namespace shardscope {
namespace {

// Of three readings the second took least: 40 ns. Its middle is 1'020, where the other clock read
// 5'020: 4'000 ahead, 20 ns more or less.
TEST(ClockOffset, IsThatOfTheNarrowestReading) {
  constexpr std::array readings{ClockReading{0, 4'900, 1'000}, ClockReading{1'000, 5'020, 1'040},
                                ClockReading{2'000, 6'300, 2'500}};
  const ClockOffset offset = clock_offset(readings);
  EXPECT_EQ(offset.offset_ns, 4'000);
  EXPECT_EQ(offset.uncertainty_ns, 20);
  EXPECT_EQ(offset.at_ns, 5'020);
}

// The other clock is 100 ahead at its 1'000'100 and 300 ahead at its 2'000'300: half way it is 200.
TEST(HostClock, TakesDriftAsEven) {
  const HostClock clock({1'000'100, 100, 5}, {2'000'300, 300, 9});
  EXPECT_EQ(clock.to_host(1'000'100), 1'000'000);
  EXPECT_EQ(clock.to_host(1'500'200), 1'500'000);
  EXPECT_EQ(clock.to_host(2'000'300), 2'000'000);
  EXPECT_EQ(clock.residual(), Duration{9});
  EXPECT_EQ(clock.distance(), Duration{309});
}

// Nanoseconds since 1970, which a double does not hold.
TEST(HostClock, IsExactOnAClockOfTheDay) {
  constexpr std::int64_t day = 1'763'776'000'123'456'789;
  const HostClock clock({day, day - 1'000, 0}, {day + 1'000'000'000, day - 1'000, 0});
  EXPECT_EQ(clock.to_host(day + 123'456'789), 123'457'789);
}

}  // namespace
}  // namespace shardscope

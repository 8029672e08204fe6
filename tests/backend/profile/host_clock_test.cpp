#include "backend/profile/host_clock.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

// The other clock is 100 ahead at its 1'000'100 and 300 ahead at its 2'000'300: half way it is 200.
TEST(HostClock, TakesDriftAsEven) {
  const HostClock clock({1'000'100, {100, 5_ns}}, {2'000'300, {300, 9_ns}});
  EXPECT_EQ(clock.to_host(1'000'100), 1'000'000);
  EXPECT_EQ(clock.to_host(1'500'200), 1'500'000);
  EXPECT_EQ(clock.to_host(2'000'300), 2'000'000);
  EXPECT_EQ(clock.residual(), Duration{9});
  EXPECT_EQ(clock.distance(), Duration{309});
}

// Nanoseconds since 1970, which a double does not hold.
TEST(HostClock, IsExactOnAClockOfTheDay) {
  constexpr std::int64_t day = 1'763'776'000'123'456'789;
  const HostClock clock({day, {day - 1'000, 0_ns}}, {day + 1'000'000'000, {day - 1'000, 0_ns}});
  EXPECT_EQ(clock.to_host(day + 123'456'789), 123'457'789);
}

}  // namespace
}  // namespace shardscope

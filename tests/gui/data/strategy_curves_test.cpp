#include "gui/data/strategy_curves.h"

#include <gtest/gtest.h>

#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

/// Compute [0, 60) us, communication [40, 100) us; 10 MiB, 15 MiB from 20 us on.
SideCurve predicted_curve() {
  const auto scenario = shardscope::testing::small_scenario("one");
  return strategy_curves(*scenario, TimeMode::step, nullptr).front();
}

TEST(StrategyCurves, BothSidesLieOnTheAxisFromTheirStepsBegin) {
  const auto scenario = shardscope::testing::small_scenario("one", 1.25, 5000);
  const auto curves = strategy_curves(*scenario, TimeMode::step, nullptr);
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].extent, (TimeRange{.begin = 0, .end = 100e3}));
  EXPECT_EQ(curves[1].extent, (TimeRange{.begin = 0, .end = 125e3}));
  EXPECT_EQ(curves[1].peak_bytes, 15.0 * 1048576);
  EXPECT_EQ(curves[1].peak_axis, 25e3);
}

TEST(StrategyCurves, BandsAreThoseOfTheHighestLevelInEachPart) {
  // Parts of 10 us: activations come at 20 us.
  const auto bands = band_pixels(predicted_curve(), {.begin = 0, .end = 120e3}, 12);
  const auto band = [&](std::size_t pixel, MemoryCategory category) {
    return (*bands[pixel])[static_cast<std::size_t>(category)];
  };
  EXPECT_EQ(band(0, MemoryCategory::parameters), 10_MiB);
  EXPECT_EQ(band(0, MemoryCategory::activations), 0_MiB);
  EXPECT_EQ(band(5, MemoryCategory::activations), 5_MiB);
  EXPECT_EQ(band(5, MemoryCategory::parameters), 10_MiB);
  EXPECT_FALSE(bands[11]) << "the step ends at 100 us";
}

TEST(StrategyCurves, OfARunOutOfMemorySaySo) {
  Scenario scenario = *shardscope::testing::small_scenario("one", 1.25);
  scenario.predicted->summary->out_of_memory = OutOfMemorySummary{.step = "setup"};
  const auto curves = strategy_curves(scenario, TimeMode::step, nullptr);
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_TRUE(curves[0].ran_out);
  EXPECT_FALSE(curves[1].ran_out);
}

TEST(StrategyCurves, EveryPixelsSharesAreExactAndSumToOne) {
  // Five parts of 20 us: compute, compute, overlapped, exposed, exposed.
  const auto shares = time_shares(predicted_curve(), {.begin = 0, .end = 100e3}, 5);
  EXPECT_DOUBLE_EQ(shares[0].compute, 1);
  EXPECT_DOUBLE_EQ(shares[2].overlapped, 1);
  EXPECT_DOUBLE_EQ(shares[2].compute, 0);
  EXPECT_DOUBLE_EQ(shares[3].exposed, 1);
  for (const TimeShares& one : shares)
    EXPECT_DOUBLE_EQ(one.compute + one.overlapped + one.exposed + one.copies + one.idle, 1);
}

TEST(StrategyCurves, APixelThatIsPartlyBeyondTheStepCountsItsPartInside) {
  // [80, 120) us: only [80, 100) is of the step, exposed all through.
  const auto shares = time_shares(predicted_curve(), {.begin = 80e3, .end = 160e3}, 2);
  EXPECT_DOUBLE_EQ(shares[0].exposed, 1);
  EXPECT_DOUBLE_EQ(shares[1].exposed, 0);
  EXPECT_DOUBLE_EQ(shares[1].idle, 0);
}

TEST(StrategyCurves, AMemoryPixelHasTheMostThatIsAliveInIt) {
  // Parts of 15 us: the second holds the change at 20 us.
  const auto most = memory_pixels(predicted_curve(), {.begin = 0, .end = 120e3}, 8);
  EXPECT_EQ(most[0], 10.0 * 1048576);
  EXPECT_EQ(most[1], 15.0 * 1048576);
  EXPECT_EQ(most[6], 15.0 * 1048576);
  EXPECT_EQ(most[7], std::nullopt);
}

}  // namespace
}  // namespace shardscope::gui

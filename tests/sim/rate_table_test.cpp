#include "sim/hardware/rate_table.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

LinearForwardKernel product(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.rows = rows, .in = in, .out = out};
}

/// A product that runs at `gflops` GFLOP/s: 2 m n k flops at so many flops a nanosecond.
KernelSample at_rate(const LinearForwardKernel& kernel, double gflops) {
  const double flops = 2.0 * static_cast<double>(kernel.rows * kernel.in * kernel.out);
  return {kernel, Duration::from_seconds(flops / (gflops * 1e9))};
}

TEST(RateTable, GivesAMeasuredPointItsOwnRate) {
  RateTable table;
  table.add(at_rate(product(1024, 1024, 1024), 100));
  table.add(at_rate(product(64, 64, 64), 20));
  EXPECT_NEAR(table.rate_at(rate_point(product(64, 64, 64))), 20e9, 1e6);
}

TEST(RateTable, GivesTheGeometricMeanHalfWayBetweenTwo) {
  // 256^3 is two octaves from both 64 x 256 x 256 and 1024 x 256 x 256: sqrt(40 x 90) = 60.
  RateTable table;
  table.add(at_rate(product(64, 256, 256), 40));
  table.add(at_rate(product(1024, 256, 256), 90));
  EXPECT_NEAR(table.rate_at(rate_point(product(256, 256, 256))), 60e9, 1e6);
}

TEST(RateTable, WeighsByTheFourthPowerOfTheDistance) {
  // One octave from 100, two from 25: weights 1 and 1/16, log-mean 100 x (1/4)^(1/17) = 92.17.
  RateTable table;
  table.add(at_rate(product(128, 256, 256), 100));
  table.add(at_rate(product(1024, 256, 256), 25));
  EXPECT_NEAR(table.rate_at(rate_point(product(256, 256, 256))), 92.17e9, 1e7);
}

TEST(RateTable, PrefersTheSameLayout) {
  LinearForwardKernel transposed = product(256, 256, 256);
  transposed.layout = WeightLayout::in_out;
  RateTable table;
  table.add(at_rate(product(256, 256, 256), 50));
  table.add(at_rate(transposed, 80));
  EXPECT_NEAR(table.rate_at(rate_point(transposed)), 80e9, 1e6);
}

TEST(RateTable, CountsBytesForKernelsThatMoveThem) {
  // fill_zero writes 4 bytes an element.
  EXPECT_EQ(work_of(FillZeroKernel{.elements = 1000}), 4000);
}

TEST(TimeCurve, IsStraightInLogLogBetweenPoints) {
  // From (1 kB, 1 us) to (100 kB, 4 us): at 10 kB half way in logs, so 2 us.
  TimeCurve curve;
  curve.add(100_kB, 4_us);
  curve.add(1_kB, 1_us);
  EXPECT_EQ(curve.time_at(10_kB), 2_us);
}

TEST(TimeCurve, KeepsTheSmallestTimeBelowAndTheLastRateAbove) {
  TimeCurve curve;
  curve.add(1_kB, 1_us);
  curve.add(100_kB, 4_us);
  EXPECT_EQ(curve.time_at(10_B), 1_us);
  EXPECT_EQ(curve.time_at(1_MB), 40_us);
}

TEST(TimeCurve, GivesAPointItsOwnTime) {
  TimeCurve curve;
  curve.add(1_kB, 1_us);
  curve.add(100_kB, 4_us);
  EXPECT_EQ(curve.time_at(1_kB), 1_us);
  EXPECT_EQ(curve.time_at(100_kB), 4_us);
}

}  // namespace
}  // namespace shardscope

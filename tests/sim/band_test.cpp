#include "sim/prediction/band.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace shardscope::testing {
namespace {

constexpr std::size_t index_of(CostGroup group) { return static_cast<std::size_t>(group); }

/// 60 ms of products, then 40 ms of what no constant moves.
Duration products_then_rest(const GroupValues& factors) {
  return Duration::from_seconds(0.06 * factors[index_of(CostGroup::products)] + 0.04);
}

TEST(Band, AddsTheSquaresOfWhatEveryConstantMakes) {
  CostSpreads spreads{.of_model = 0.08};
  spreads.of_group[index_of(CostGroup::products)] = 0.1;  // of 60 ms: 6% of 100
  const StepTimeBand band = step_time_band(products_then_rest, spreads);
  EXPECT_NEAR(band.high_factor, std::exp(1.645 * 0.1), 1e-6);
  EXPECT_NEAR(band.low_factor, std::exp(-1.645 * 0.1), 1e-6);
}

TEST(Band, WhatIsHiddenMakesItNoWider) {
  // 50 ms of network beside 100 ms of compute.
  const auto step = [](const GroupValues& factors) {
    return Duration::from_seconds(std::max(0.1, 0.05 * factors[index_of(CostGroup::network)]));
  };
  CostSpreads spreads;
  spreads.of_group[index_of(CostGroup::network)] = 0.5;
  EXPECT_DOUBLE_EQ(step_time_band(step, spreads).high_factor, 1);
}

TEST(Band, NothingUncertainIsOneTime) {
  const StepTimeBand band = step_time_band(products_then_rest, {});
  EXPECT_DOUBLE_EQ(band.low_factor, 1);
  EXPECT_DOUBLE_EQ(band.high_factor, 1);
}

}  // namespace
}  // namespace shardscope::testing

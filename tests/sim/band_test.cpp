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

/// What was measured within a node says nothing of the network: its figure is that of the profile.
TEST(Band, CollectivesOfANodeDoNotSpeakOfItsNetwork) {
  const CostSpreads tcp = spreads_of(find_hardware_profile("a100_80gb_tcp", "t"));
  EXPECT_DOUBLE_EQ(tcp.of_group[index_of(CostGroup::network)], 0.25);
  EXPECT_DOUBLE_EQ(tcp.of_group[index_of(CostGroup::links)], 0.15);
}

// Half of the step is a convolution's, whose figures on Ampere are 25% uncertain, and half an
// LSTM's, 50%: 12.5 and 25% of the step. Neither is counted as a product or as memory traffic.
TEST(Band, LayersOfCudnnMoveByTheirOwnSpreads) {
  const HardwareProfile profile = find_hardware_profile("a100_80gb", "t");
  Schedule schedule;
  schedule.works = {{.kind = WorkKind::matmul, .convolution = {.channels = 64}},
                    {.kind = WorkKind::matmul, .recurrent = {.layers = 1}},
                    {.kind = WorkKind::matmul}};
  const auto group = [&](std::uint32_t work) {
    return cost_group(schedule, {.detail = Operation::no_kernel, .work = work}, profile);
  };
  EXPECT_EQ(group(0), CostGroup::convolutions);
  EXPECT_EQ(group(1), CostGroup::recurrent);
  EXPECT_EQ(group(2), CostGroup::products);
  const auto halves = [](const GroupValues& factors) {
    return Duration::from_seconds(0.05 * factors[index_of(CostGroup::convolutions)] +
                                  0.05 * factors[index_of(CostGroup::recurrent)]);
  };
  const StepTimeMoves moves = step_time_moves(halves, spreads_of(profile));
  EXPECT_NEAR(moves.of_group[index_of(CostGroup::convolutions)], 0.125, 1e-6);
  EXPECT_NEAR(moves.of_group[index_of(CostGroup::recurrent)], 0.25, 1e-6);
  EXPECT_EQ(moves.of_group[index_of(CostGroup::products)], 0);
}

CostGroup group_of_product(const MatmulShape& shape, const HardwareProfile& profile) {
  Schedule schedule;
  schedule.works = {{.kind = WorkKind::matmul, .dtype = Dtype::bfloat16, .matmul = shape}};
  return cost_group(schedule, {.detail = Operation::no_kernel, .work = 0}, profile);
}

// Scores of 12 heads of 128 (256 bytes a row) and of 150 (300 bytes, no multiple of 16), and a
// linear layer. On Hopper nothing says that one is less certain than the others.
TEST(Band, ProductsOfAttentionByHandMoveByTheirOwnSpreads) {
  const MatmulShape heads_of_128{.batch = 12, .m = 2048, .n = 2048, .k = 128};
  const MatmulShape heads_of_150{.batch = 12, .m = 2048, .n = 2048, .k = 150};
  const MatmulShape linear{.batch = 1, .m = 2048, .n = 2048, .k = 150};
  const HardwareProfile a100 = find_hardware_profile("a100_80gb", "t");
  EXPECT_EQ(group_of_product(heads_of_128, a100), CostGroup::batched);
  EXPECT_EQ(group_of_product(heads_of_150, a100), CostGroup::unaligned);
  EXPECT_EQ(group_of_product(linear, a100), CostGroup::products);
  const HardwareProfile h100 = find_hardware_profile("h100_sxm", "t");
  EXPECT_EQ(group_of_product(heads_of_128, h100), CostGroup::products);
  EXPECT_EQ(group_of_product(heads_of_150, h100), CostGroup::products);
}

// 130 and 201, 219 and 230, 227 and 230, 243 and 236, 132 and 183 TFLOP/s: logarithms of 0.44,
// 0.05, 0.01, -0.03 and 0.33; the root of the mean square is 0.24. 53.9 / 12.2 is 4.42, half of
// whose logarithm is 0.74.
TEST(Band, ProductsOfAttentionByHandAreAsUncertainAsMeasurementsAreApart) {
  const CostSpreads spreads = spreads_of(find_hardware_profile("a100_80gb", "t"));
  EXPECT_NEAR(spreads.of_group[index_of(CostGroup::batched)], 0.24, 0.005);
  EXPECT_NEAR(spreads.of_group[index_of(CostGroup::unaligned)], std::log(53.9 / 12.2) / 2, 0.005);
}

TEST(Band, AStepIsAskedAgainOnlyWhereItsCostsMove) {
  PresentGroups present;
  present.add(CostGroup::products);
  int asked = 0;
  const ScaledStep step = where_moved(present, [&](const GroupValues& factors) {
    ++asked;
    return products_then_rest(factors);
  });
  EXPECT_EQ(asked, 1);
  GroupValues factors;
  factors.fill(1);
  factors[index_of(CostGroup::network)] = 2;
  EXPECT_NEAR(step(factors).seconds(), 0.1, 1e-9);
  EXPECT_EQ(asked, 1);
  factors[index_of(CostGroup::products)] = 2;
  EXPECT_NEAR(step(factors).seconds(), 0.16, 1e-9);
  EXPECT_EQ(asked, 2);
}

TEST(Band, NothingUncertainIsOneTime) {
  const StepTimeBand band = step_time_band(products_then_rest, {});
  EXPECT_DOUBLE_EQ(band.low_factor, 1);
  EXPECT_DOUBLE_EQ(band.high_factor, 1);
}

/// Moves of products and of the model.
StepTimeMoves moves(double products, double of_model) {
  StepTimeMoves result{.of_model = of_model};
  result.of_group[index_of(CostGroup::products)] = products;
  return result;
}

// sqrt((0.06 - 0.05)^2 + 0.03^2 + 0.03^2) = 0.04359
TEST(RatioBand, CountsWhatMovesTheOneMoreThanTheOther) {
  const StepTimeBand band = ratio_band(moves(0.06, 0.03), moves(0.05, 0.03));
  EXPECT_NEAR(band.high_factor, std::exp(1.645 * 0.0435890), 1e-6);
  EXPECT_NEAR(band.low_factor, std::exp(-1.645 * 0.0435890), 1e-6);
}

// Both wait for the same products, so that a clock that is off moves both.
TEST(RatioBand, WhatMovesBothAlikeCancels) {
  const StepTimeBand band = ratio_band(moves(0.2, 0), moves(0.2, 0));
  EXPECT_DOUBLE_EQ(band.low_factor, 1);
  EXPECT_DOUBLE_EQ(band.high_factor, 1);
}

// 60 of 100 ms by 10%: 6%.
TEST(StepTimeMoves, AreRelativeToTheWholeStep) {
  CostSpreads spreads{.of_model = 0.08};
  spreads.of_group[index_of(CostGroup::products)] = 0.1;
  const StepTimeMoves found = step_time_moves(products_then_rest, spreads);
  EXPECT_NEAR(found.of_group[index_of(CostGroup::products)], 0.06, 1e-6);
  EXPECT_EQ(found.of_group[index_of(CostGroup::network)], 0);
  EXPECT_EQ(found.of_model, 0.08);
}

}  // namespace
}  // namespace shardscope::testing

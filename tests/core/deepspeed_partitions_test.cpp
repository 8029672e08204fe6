#include <gtest/gtest.h>

#include <vector>

#include "core/base/refusal.h"
#include "core/pytorch/plans/deepspeed_flat_groups.h"
#include "core/pytorch/plans/deepspeed_zero3.h"
#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

using testing::parameter_of;
using testing::tree_of_rows;

using Ids = std::vector<std::int32_t>;
using Sizes = std::vector<std::int64_t>;

ModuleTree ten_three() { return tree_of_rows({{"", "Net", {{"a", {10}}, {"b", {3}}}}}); }

ModuleTree five_parameters() {
  return tree_of_rows(
      {{"", "Net"}, {"l", "Block", {{"p", {3}}, {"q", {3}}, {"r", {5}}, {"s", {2}}, {"t", {7}}}}});
}

ZeroFlatGroup only_group(const ModuleTree& tree, const ZeroSettings& settings) {
  return zero_flat_groups(tree, {all_parameters(tree)}, settings).at(0);
}

TEST(ZeroFlatGroup, PadsToTwiceTheWorld) {
  // 13 elements on 2 ranks: a multiple of 4 is 16; a multiple of the world would be 14.
  const ModuleTree tree = ten_three();
  const ZeroFlatGroup group = only_group(tree, {.stage = 1, .world = 2});
  EXPECT_EQ(group.flat_elements, 16);
  EXPECT_EQ(group.partition_elements, 8);
  EXPECT_EQ(zero_partition(tree, group, 0),
            (ZeroPartition{.parameters = {0}, .first_offset = 0, .padding_elements = 0}));
  EXPECT_EQ(zero_partition(tree, group, 1),
            (ZeroPartition{.parameters = {0, 1}, .first_offset = 8, .padding_elements = 3}));
}

TEST(ZeroFlatGroup, PartitionMayBeAllPadding) {
  // 3 elements on 4 ranks: 8 flat, 2 each; ranks 2 and 3 have padding only.
  const ModuleTree tree = tree_of_rows({{"", "Net", {{"a", {3}}}}});
  const ZeroFlatGroup group = only_group(tree, {.stage = 2, .world = 4});
  EXPECT_EQ(zero_partition(tree, group, 1).padding_elements, 1);
  EXPECT_EQ(zero_partition(tree, group, 3).padding_elements, 2);
  EXPECT_TRUE(zero_partition(tree, group, 3).parameters.empty());
  // BF16_Optimizer books all five on the last rank.
  EXPECT_EQ(booked_padding(group, 3), 5);
  EXPECT_EQ(booked_padding(group, 1), 0);
}

TEST(ZeroFlatGroup, AlignsEachParameterButTheLastTo16Bytes) {
  // In bfloat16 8 elements: starts at 0, 8, 16, 24, 32; used 32 + 7 = 39, padded to 42 on 3 ranks.
  const ZeroFlatGroup group = only_group(
      five_parameters(),
      {.stage = 2, .world = 3, .precision = Dtype::bfloat16, .parameter_alignment = true});
  EXPECT_EQ(group.offsets, (Sizes{0, 8, 16, 24, 32}));
  EXPECT_EQ(group.padding, (Sizes{5, 5, 3, 6, 0}));
  EXPECT_EQ(group.flat_elements, 42);
}

TEST(ZeroFlatGroup, RoundRobinTakesEveryWorldthParameter) {
  const ZeroFlatGroup group =
      only_group(five_parameters(), {.stage = 2, .world = 2, .round_robin_gradients = true});
  EXPECT_EQ(group.parameters, (Ids{0, 2, 4, 1, 3}));
  EXPECT_EQ(group.offsets, (Sizes{0, 3, 8, 15, 18}));
}

TEST(ZeroFlatGroup, HoldsWhatIsTrainedAndNotEmpty) {
  ModuleTree tree = five_parameters();
  parameter_of(tree, "l.p").trainable = false;
  parameter_of(tree, "l.q").shape = {0};
  EXPECT_EQ(only_group(tree, {.stage = 1, .world = 1}).parameters, (Ids{2, 3, 4}));
}

TEST(ZeroFlatGroup, RefusesAGroupOfFrozenParametersAndScalars) {
  ModuleTree tree = ten_three();
  parameter_of(tree, "a").trainable = false;
  EXPECT_THROW(zero_flat_groups(tree, {{0}, {1}}, {.stage = 1, .world = 2}), Refusal);
  parameter_of(tree, "b").shape = {};
  EXPECT_THROW(zero_flat_groups(tree, {{1}}, {.stage = 1, .world = 2}), Refusal);
}

TEST(ZeroOptimizer, Float32AccumulationOfStage1InBfloat16HasItsOwn) {
  ZeroSettings settings{.stage = 1,
                        .world = 2,
                        .precision = Dtype::bfloat16,
                        .gradient_accumulation = Dtype::float32};
  EXPECT_EQ(zero_optimizer(settings), ZeroOptimizer::bf16);
  settings.stage = 2;
  EXPECT_EQ(zero_optimizer(settings), ZeroOptimizer::stage_1_and_2);
  settings = {.stage = 1, .world = 2, .precision = Dtype::bfloat16};
  EXPECT_EQ(zero_optimizer(settings), ZeroOptimizer::stage_1_and_2);
}

TEST(Zero3, PadsEveryParameterToTheWorld) {
  const Zero3Plan plan = zero3_plan(ten_three(), {{0, 1}}, {.stage = 3, .world = 4});
  EXPECT_EQ(plan.parameters[0].partition_elements, 3);
  EXPECT_EQ(plan.parameters[0].padding_elements, 2);
  EXPECT_EQ(plan.parameters[1].partition_elements, 1);
  EXPECT_EQ(plan.partition_elements, 4);
  EXPECT_EQ(booked_padding(plan.parameters[0], 3, 4), 2);
  EXPECT_EQ(booked_padding(plan.parameters[0], 2, 4), 0);
}

TEST(Zero3, SubGroupClosesOnceItsSizeIsReached) {
  // On one rank 3, 3, 5, 2, 7 and a size of 6: 3+3 = 6 closes, 5+2 overshoots, 7.
  ZeroSettings settings{.stage = 3, .world = 1, .sub_group_size = 6};
  const ModuleTree tree = five_parameters();
  const Zero3Plan plan = zero3_plan(tree, {all_parameters(tree)}, settings);
  ASSERT_EQ(plan.sub_groups.size(), 3U);
  EXPECT_EQ(plan.sub_groups[0].parameters, (Ids{0, 1}));
  EXPECT_EQ(plan.sub_groups[1].partition_elements, 7);
  settings.sub_group_size = 20;  // all of it
  EXPECT_EQ(zero3_plan(tree, {all_parameters(tree)}, settings).sub_groups.size(), 1U);
}

TEST(Zero3, SubGroupsRememberTheirOptimizerGroup) {
  const Zero3Plan plan =
      zero3_plan(five_parameters(), {{1, 3}, {}, {0, 2, 4}}, {.stage = 3, .world = 2});
  ASSERT_EQ(plan.sub_groups.size(), 2U);
  EXPECT_EQ(plan.sub_groups[1].optimizer_group, 1);
  EXPECT_EQ(plan.sub_groups[1].parameters, (Ids{0, 2, 4}));
}

TEST(Zero3, ModelThresholdSkipsWhatGoesOverAndGoesOn) {
  // At most 5 elements each and 8 together: 3, 3, then 5 would make 11, then 2 makes 8.
  const ModuleTree tree = five_parameters();
  const Zero3Plan plan = zero3_plan(tree, {all_parameters(tree)},
                                    {.stage = 3,
                                     .world = 1,
                                     .parameter_persistence_threshold = 5,
                                     .model_persistence_threshold = 8});
  EXPECT_EQ(plan.persistent_parameters, (Ids{0, 1, 3}));
  EXPECT_TRUE(plan.parameters[3].persistent);
  EXPECT_FALSE(plan.parameters[4].persistent);
}

TEST(Zero3, RefusesSeveralDtypesUnlessThePrecisionUnitesThem) {
  ModuleTree tree = ten_three();
  parameter_of(tree, "b").dtype = Dtype::bfloat16;
  EXPECT_THROW(zero3_plan(tree, {{0, 1}}, {.stage = 3, .world = 2}), Refusal);
  EXPECT_NO_THROW(
      zero3_plan(tree, {{0, 1}}, {.stage = 3, .world = 2, .precision = Dtype::bfloat16}));
}

}  // namespace
}  // namespace shardscope

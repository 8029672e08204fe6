#include "core/pytorch/plans/deepspeed_estimators.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

/// t5-3b, as in DeepSpeed's documentation (memory.rst).
constexpr EstimatorModel t5_3b{.elements = 2'851'000'000, .largest_layer_elements = 32'000'000};
constexpr EstimatorCluster eight_gpus{.gpus_per_node = 8};

TEST(EstimateZero2, OffloadsTheOptimizer) {
  // CPU: 2,851e6 * max(4 * 8, 16) * 1.5; GPU: 2 bytes an element.
  EXPECT_EQ(estimate_zero2(t5_3b, eight_gpus, {.optimizer = true}),
            (MemoryEstimate{.per_node_cpu = 136'848'000'000_B, .per_gpu = 5'702'000'000_B}));
  // GPU: 2 bytes an element and 18 / 8 more.
  EXPECT_EQ(estimate_zero2(t5_3b, eight_gpus, {.optimizer = false}).per_gpu, 12'116'750'000_B);
}

TEST(EstimateZero2, CountsAllNodesOnTheCpuOfOne) {
  // 4 bytes by 3 * 8 ranks by 1.5; of stage 3 it would be the node's ranks.
  EXPECT_EQ(estimate_zero2({.elements = 1000}, {.gpus_per_node = 8, .nodes = 3}, {}).per_node_cpu,
            144'000_B);
}

TEST(EstimateZero3, KeepsOneLayerOnTheGpu) {
  // CPU: 2,851e6 * 18 * 1.5; GPU: 4 * 32e6.
  EXPECT_EQ(estimate_zero3(t5_3b, eight_gpus, {}),
            (MemoryEstimate{.per_node_cpu = 76'977'000'000_B,
                            .per_gpu = 128'000'000_B,
                            .largest_layer = 128'000'000_B}));
  // Parameters stay: 2 * 2,851e6 / 8 more, and 16 instead of 18 bytes on the CPU.
  const MemoryEstimate kept =
      estimate_zero3(t5_3b, eight_gpus, {.optimizer = true, .parameters = false});
  EXPECT_EQ(kept.per_gpu, 840'750'000_B);
  EXPECT_EQ(kept.per_node_cpu, 68'424'000'000_B);
}

TEST(EstimateZero3, WithoutZeroInitEveryRankBuildsTheModel) {
  // 4 * 8 = 32 is more than 18: 2,851e6 * 32 * 1.5.
  EXPECT_EQ(estimate_zero3(t5_3b, eight_gpus, {.zero_init = false}).per_node_cpu,
            136'848'000'000_B);
  // On one GPU 18 is more than 4.
  EXPECT_EQ(estimate_zero3(t5_3b, {}, {.zero_init = false}).per_node_cpu, 76'977'000'000_B);
  // Without offload and with zero.Init a rank builds one layer: 32e6 * 4 * 8 * 1.5.
  EXPECT_EQ(
      estimate_zero3(t5_3b, eight_gpus, {.optimizer = false, .parameters = false}).per_node_cpu,
      1'536'000'000_B);
}

TEST(EstimateZero3, FloorsShares) {
  // 18 * 7 / 4 = 31.5, and 7 * 18 * (1 / 3) * 1.1 = 46.2.
  EXPECT_EQ(estimate_zero3({.elements = 7}, {.gpus_per_node = 4}, {.optimizer = false}).per_gpu,
            31_B);
  EXPECT_EQ(estimate_zero3({.elements = 7}, {.nodes = 3, .additional_buffer_factor = 1.1}, {})
                .per_node_cpu,
            46_B);
}

TEST(EstimateAll, ListsTheRowsThatDeepSpeedPrints) {
  const auto rows = estimate_all(t5_3b, eight_gpus);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[1].stage, 2);
  EXPECT_FALSE(rows[1].offload.optimizer);
  EXPECT_EQ(rows[2].offload, EstimatorOffload{});
  EXPECT_EQ(rows[7].offload,
            (EstimatorOffload{.optimizer = false, .parameters = false, .zero_init = false}));
}

TEST(EstimatorModel, CountsSharedParametersOnceAndTheLargestOwner) {
  ModuleTree tree = testing::tree_of_rows({{"", "Net", {{"p", {5}}}},
                                           {"a", "Linear", {{"weight", {4, 4}}, {"bias", {4}}}},
                                           {"b", "Linear", {{"weight", {4, 4}}}}});
  testing::tie(tree, "a.weight", "b.weight");
  EXPECT_EQ(estimator_model(tree), (EstimatorModel{.elements = 25, .largest_layer_elements = 20}));
}

TEST(EstimateZero3, RefusesWhatPythonWouldRoundOtherwise) {
  EXPECT_THROW(estimate_zero3({.elements = 600'000'000'000'000}, {}, {}), Error);
  EXPECT_THROW(estimate_zero2({.elements = 1}, {.gpus_per_node = 0}, {}), Error);
  EXPECT_THROW(estimate_zero2({.elements = 1'000'000'000}, {.additional_buffer_factor = 1e300}, {}),
               Error);
}

}  // namespace
}  // namespace shardscope

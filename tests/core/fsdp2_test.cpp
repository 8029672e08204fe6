#include "core/pytorch/plans/fsdp2.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/pytorch/plans/fsdp2_shard.h"
#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

using testing::parameter_of;
using testing::share;
using testing::tie;
using testing::tree_of_rows;

/// embed, two layers in a list, norm, head: 0 root, 1 embed, 2 layers, 3 and 4 the layers, 5 norm,
/// 6 head.
ModuleTree small_net() {
  return tree_of_rows({{"", "Net"},
                       {"embed", "Embedding", {{"weight", {10, 3}}}},
                       {"layers", "ModuleList"},
                       {"layers.0", "Block", {{"weight", {3, 3}}, {"bias", {3}}}},
                       {"layers.1", "Block", {{"weight", {3, 3}}, {"bias", {3}}}},
                       {"norm", "LayerNorm", {{"weight", {3}}}},
                       {"head", "Linear", {{"weight", {10, 3}}}}});
}

FullyShardCall on(std::vector<std::int32_t> modules, int shards) {
  const bool list = modules.size() > 1;
  return {.modules = std::move(modules), .list = list, .mesh = {.replicas = 1, .shards = shards}};
}

std::vector<std::string> names_of(const ModuleTree& tree, const Fsdp2Group& group) {
  std::vector<std::string> names;
  for (const Fsdp2Parameter& p : group.parameters)
    names.push_back(tree.parameters[static_cast<std::size_t>(p.parameter)].name);
  return names;
}

using Names = std::vector<std::string>;

std::string exception_of(const ModuleTree& tree, const std::vector<FullyShardCall>& calls) {
  try {
    fully_shard(tree, calls);
  } catch (const Refusal& refusal) {
    return refusal.exception();
  }
  return "none";
}

TEST(Fsdp2Shard, ChunksLeaveTheLastRanksEmpty) {
  // torch.chunk of 10 rows by 8: chunks of ceil(10/8) = 2 rows, so five chunks, not 8 of 1 or 2.
  const Shape shape{10, 3};
  EXPECT_EQ(fsdp2_shard(shape, 0, 8, 0), (Fsdp2Shard{.dim_size = 2, .elements = 6}));
  EXPECT_EQ(fsdp2_shard(shape, 0, 8, 4), (Fsdp2Shard{.dim_size = 2, .elements = 6}));
  EXPECT_EQ(fsdp2_shard(shape, 0, 8, 5), (Fsdp2Shard{.dim_size = 0, .elements = 0}));
  EXPECT_EQ(padded_shard_elements(shape, 0, 8), 6);
}

TEST(Fsdp2Shard, LastShardIsTheShorterOne) {
  // 10 rows by 4: 3, 3, 3, 1; an even split would be 3, 3, 2, 2.
  EXPECT_EQ(fsdp2_shard({10, 3}, 0, 4, 2).dim_size, 3);
  EXPECT_EQ(fsdp2_shard({10, 3}, 0, 4, 3), (Fsdp2Shard{.dim_size = 1, .elements = 3}));
  EXPECT_EQ(padded_dim_size({10, 3}, 0, 4), 3);
}

TEST(Fsdp2Shard, DividesAlongTheChosenDimension) {
  EXPECT_EQ(fsdp2_shard({24, 8}, 1, 4, 3), (Fsdp2Shard{.dim_size = 2, .elements = 48}));
}

TEST(FullyShard, RootTakesWhatIsLeftAndStandsFirst) {
  const ModuleTree tree = small_net();
  const Fsdp2Plan plan = fully_shard(tree, {on({3}, 4), on({4}, 4), on({0}, 4)});
  ASSERT_EQ(plan.groups.size(), 3U);
  EXPECT_EQ(names_of(tree, plan.groups[0]), (Names{"embed.weight", "norm.weight", "head.weight"}));
  EXPECT_EQ(names_of(tree, plan.groups[1]), (Names{"layers.0.weight", "layers.0.bias"}));
  EXPECT_FALSE(plan.refused_at_first_forward.has_value());
}

TEST(FullyShard, ListsChildrenBeforeTheirParent) {
  const ModuleTree tree = tree_of_rows({{"", "Net", {{"own", {4}}}},
                                        {"a", "Outer", {{"own", {4}}}},
                                        {"a.l", "Linear", {{"weight", {4, 4}}}}});
  const Fsdp2Plan plan = fully_shard(tree, {on({0}, 2)});
  EXPECT_EQ(names_of(tree, plan.groups.at(0)), (Names{"a.l.weight", "a.own", "own"}));
}

TEST(FullyShard, GroupsLayersThatAreNoNeighbours) {
  const ModuleTree tree = small_net();
  const Fsdp2Plan plan = fully_shard(tree, {on({6, 1}, 2), on({0}, 2)});
  ASSERT_EQ(plan.groups.size(), 2U);
  // The list's own order decides inside the group, its first module in the tree among groups.
  EXPECT_EQ(names_of(tree, plan.groups[1]), (Names{"head.weight", "embed.weight"}));
}

TEST(FullyShard, FreesAllButTheRootAfterForward) {
  const ModuleTree tree = small_net();
  const std::vector<FullyShardCall> calls{on({3}, 4), on({0}, 4)};
  const Fsdp2Plan run = fully_shard(tree, calls);
  EXPECT_EQ(run.groups[0].post_forward_shards, std::nullopt);
  EXPECT_EQ(run.groups[1].post_forward_shards, 4);
  // Which module is the root is only known then.
  const Fsdp2Plan built = fully_shard(tree, calls, Fsdp2Moment::constructed);
  EXPECT_EQ(built.groups[0].post_forward_shards, 4);
}

TEST(FullyShard, AskedForRootIsFreedToo) {
  FullyShardCall root = on({0}, 4);
  root.reshard_after_forward = true;
  EXPECT_EQ(fully_shard(small_net(), {root}).groups[0].post_forward_shards, 4);
}

TEST(FullyShard, KeepsPiecesOfSmallerGroupsAfterForward) {
  FullyShardCall layer = on({3}, 8);
  layer.reshard_after_forward = 2;
  EXPECT_EQ(fully_shard(small_net(), {layer, on({0}, 8)}).groups[1].post_forward_shards, 2);
  layer.reshard_after_forward = 3;
  EXPECT_EQ(exception_of(small_net(), {layer}), "ValueError");
}

TEST(FullyShard, GroupsOfOneRankMeanNotToFree) {
  FullyShardCall layer = on({3}, 8);
  layer.reshard_after_forward = 1;
  const Fsdp2Plan plan = fully_shard(small_net(), {layer, on({0}, 8)});
  EXPECT_EQ(plan.groups[1].post_forward_shards, std::nullopt);
  EXPECT_EQ(plan.warnings.size(), 1U);
}

TEST(FullyShard, NamesAliasesInsideTheGroup) {
  ModuleTree tree = small_net();
  tie(tree, "embed.weight", "head.weight");
  const Fsdp2Plan plan = fully_shard(tree, {on({0}, 2)});
  // head.weight is the last of the tree's six names.
  EXPECT_EQ(plan.groups[0].parameters[0].aliases, (std::vector<std::int32_t>{6}));
  EXPECT_FALSE(plan.refused_at_first_forward.has_value());
}

TEST(FullyShard, TiedParameterInTwoGroupsFailsAtTheFirstForward) {
  ModuleTree tree = small_net();
  tie(tree, "embed.weight", "head.weight");
  const Fsdp2Plan plan = fully_shard(tree, {on({1}, 2), on({0}, 2)});
  ASSERT_EQ(plan.groups.size(), 2U);
  ASSERT_TRUE(plan.refused_at_first_forward.has_value());
  EXPECT_EQ(plan.refused_at_first_forward->exception(), "ValueError");
}

TEST(FullyShard, OuterModuleFirstIsRefusedForItsMesh) {
  const ModuleTree tree =
      tree_of_rows({{"", "Net"}, {"a", "Outer"}, {"a.l", "Linear", {{"weight", {4, 4}}}}});
  EXPECT_EQ(exception_of(tree, {on({1}, 2), on({2}, 2)}), "RuntimeError");
  FullyShardCall outer = on({1}, 2), inner = on({2}, 2);
  outer.mesh.given = inner.mesh.given = false;
  EXPECT_EQ(exception_of(tree, {outer, inner}), "TypeError");
}

TEST(FullyShard, ModuleUnderTwoNamesIsShardedOnce) {
  ModuleTree tree = tree_of_rows(
      {{"", "Net"}, {"a", "Linear", {{"weight", {4, 4}}}}, {"b", "Linear", {{"weight", {4, 4}}}}});
  share(tree, "a", "b");
  EXPECT_EQ(fully_shard(tree, {on({0}, 2)}).groups.at(0).parameters.size(), 1U);
  EXPECT_EQ(exception_of(tree, {on({1}, 2), on({2}, 2)}), "AssertionError");
}

TEST(FullyShard, RefusesWhatHasNoForward) {
  EXPECT_EQ(exception_of(small_net(), {on({2}, 2)}), "ValueError");
}

TEST(FullyShard, ListOfContainersIsNeverGathered) {
  FullyShardCall list = on({2}, 2);
  list.list = true;
  const Fsdp2Plan plan = fully_shard(small_net(), {list, on({0}, 2)});
  ASSERT_TRUE(plan.refused_at_first_forward.has_value());
  EXPECT_EQ(plan.refused_at_first_forward->exception(), "RuntimeError");
}

TEST(FullyShard, RefusesScalarsAndUnevenInnerDimensions) {
  const ModuleTree scalar = tree_of_rows({{"", "Net", {{"scale", {}}}}});
  EXPECT_EQ(exception_of(scalar, {on({0}, 2)}), "ValueError");
  FullyShardCall inner = on({0}, 2);
  inner.shard_dims[0] = -1;  // embed.weight has 3 columns
  EXPECT_EQ(exception_of(small_net(), {inner}), "NotImplementedError");
  inner.shard_dims[0] = 2;
  EXPECT_EQ(exception_of(small_net(), {inner}), "AssertionError");
}

TEST(FullyShard, TrainableParametersOfAGroupHaveOneDtype) {
  ModuleTree tree = small_net();
  parameter_of(tree, "head.weight").dtype = Dtype::bfloat16;
  EXPECT_EQ(fully_shard(tree, {on({0}, 2)}).refused_at_first_forward->exception(),
            "AssertionError");
  parameter_of(tree, "head.weight").trainable = false;
  EXPECT_FALSE(fully_shard(tree, {on({0}, 2)}).refused_at_first_forward.has_value());
}

TEST(FullyShard, PaddedElementsAreThoseOfEveryParameter) {
  // On 4 ranks: embed 3 rows of 3, norm 1, head 3 rows of 3: 9 + 1 + 9; 63 / 4 would be 16.
  const ModuleTree tree = small_net();
  const Fsdp2Plan plan = fully_shard(tree, {on({3}, 4), on({4}, 4), on({0}, 4)});
  EXPECT_EQ(padded_shard_elements(tree, plan.groups[0]), 19);
}

TEST(Fsdp2Mesh, HoldsAllRanks) {
  EXPECT_EQ(fsdp2_mesh({2, 4}, 8), (Fsdp2Mesh{.replicas = 2, .shards = 4}));
  EXPECT_THROW(fsdp2_mesh({2, 4}, 4), Refusal);
  EXPECT_THROW(fsdp2_mesh({2, 2}, 8), Refusal);
  EXPECT_THROW(fsdp2_mesh({-2, -2}, 4), Refusal);
}

}  // namespace
}  // namespace shardscope

#include "core/pytorch/plans/fsdp1.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/refusal.h"
#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

using testing::ModuleRow;
using testing::parameter_of;
using testing::share;
using testing::tie;
using testing::tree_of_rows;

std::vector<std::string> modules_of(const Fsdp1Plan& plan) {
  std::vector<std::string> modules;
  for (const Fsdp1Unit& unit : plan.units) modules.push_back(unit.module);
  return modules;
}

std::vector<std::string> names_of(const Fsdp1Unit& unit) {
  std::vector<std::string> names;
  for (const Fsdp1Unit::Parameter& parameter : unit.parameters) names.push_back(parameter.name);
  return names;
}

std::string exception_of(const ModuleTree& tree, const Fsdp1Settings& settings) {
  try {
    plan_fsdp1(tree, settings);
  } catch (const Refusal& refusal) {
    return refusal.exception();
  }
  return "none";
}

/// bert-base-uncased for sequence classification with two labels; what is inside a layer does not
/// matter here: 4 * (768*768 + 768) + 2 * 4*768*768 + 5*768 + 4*768 = 7,087,872 elements.
ModuleTree bert_base() {
  std::vector<ModuleRow> rows{
      {"", "BertForSequenceClassification"},
      {"bert", "BertModel"},
      {"bert.embeddings", "BertEmbeddings"},
      {"bert.embeddings.word_embeddings", "Embedding", {{"weight", {30522, 768}}}},
      {"bert.embeddings.position_embeddings", "Embedding", {{"weight", {512, 768}}}},
      {"bert.embeddings.token_type_embeddings", "Embedding", {{"weight", {2, 768}}}},
      {"bert.embeddings.LayerNorm", "LayerNorm", {{"weight", {768}}, {"bias", {768}}}},
      {"bert.encoder", "BertEncoder"},
      {"bert.encoder.layer", "ModuleList"}};
  for (int i = 0; i < 12; ++i)
    rows.push_back(
        {"bert.encoder.layer." + std::to_string(i), "BertLayer", {{"all", {7'087'872}}}});
  rows.push_back({"bert.pooler", "BertPooler"});
  rows.push_back({"bert.pooler.dense", "Linear", {{"weight", {768, 768}}, {"bias", {768}}}});
  rows.push_back({"classifier", "Linear", {{"weight", {2, 768}}, {"bias", {2}}}});
  return tree_of_rows(rows);
}

TEST(Fsdp1, WrapsBertBySizeIntoThreeUnitsOfKnownShards) {
  // The layers (7.1e6 each) are too small, their ModuleList is excluded, so the encoder is a unit;
  // embeddings, pooler and classifier leave too little beside the word embeddings.
  const Fsdp1Plan plan =
      plan_fsdp1(bert_base(), {.world = 2, .auto_wrap = SizeWrap{.min_elements = 10'000'000}});
  EXPECT_EQ(modules_of(plan),
            (std::vector<std::string>{"", "bert.embeddings.word_embeddings", "bert.encoder"}));
  EXPECT_EQ(plan.units[0].flat.shard_elements, 494'209);
  EXPECT_EQ(plan.units[1].flat.shard_elements, 11'720'448);
  EXPECT_EQ(plan.units[2].flat.shard_elements, 42'527'232);
}

/// Net(in, two blocks of a linear and an inner block, out).
ModuleTree nested() {
  return tree_of_rows({{"", "Net"},
                       {"in", "Linear", {{"weight", {6, 6}}}},
                       {"b0", "Outer"},
                       {"b0.pre", "Linear", {{"weight", {5, 6}}}},
                       {"b0.mid", "Inner", {}, {"InnerBase"}},
                       {"b0.mid.l", "Linear", {{"weight", {4, 6}}}},
                       {"b1", "Outer"},
                       {"b1.pre", "Linear", {{"weight", {3, 6}}}},
                       {"out", "Linear", {{"weight", {2, 6}}, {"bias", {2}}}}});
}

TEST(Fsdp1, WrapsNestedMatchesApart) {
  const Fsdp1Plan plan = plan_fsdp1(nested(), {.auto_wrap = TransformerWrap{{"Outer", "Inner"}}});
  EXPECT_EQ(modules_of(plan), (std::vector<std::string>{"", "b0", "b0.mid", "b1"}));
  EXPECT_EQ(names_of(plan.units[1]), (std::vector<std::string>{"b0.pre.weight"}));
}

TEST(Fsdp1, MatchesBaseClasses) {
  const Fsdp1Plan plan = plan_fsdp1(nested(), {.auto_wrap = ClassWrap{{"InnerBase"}}});
  EXPECT_EQ(modules_of(plan), (std::vector<std::string>{"", "b0.mid"}));
}

TEST(Fsdp1, SizePolicyWrapsARemainder) {
  // b0 has 54: its children (30 and 24) are wrapped at 24, so nothing remains of it. At 30 only the
  // first is, and 24 remain, too few. At 54 it is wrapped whole.
  const auto units = [](std::int64_t min) {
    return modules_of(plan_fsdp1(nested(), {.auto_wrap = SizeWrap{.min_elements = min}}));
  };
  EXPECT_EQ(units(24), (std::vector<std::string>{"", "in", "b0.pre", "b0.mid.l"}));
  EXPECT_EQ(units(30), (std::vector<std::string>{"", "in", "b0.pre"}));
  EXPECT_EQ(units(54), (std::vector<std::string>{"", "b0"}));
}

TEST(Fsdp1, SizePolicyDoesNotEnterMultiheadAttention) {
  const ModuleTree tree = tree_of_rows(
      {{"", "Net"},
       {"a", "MultiheadAttention", {{"in_proj_weight", {36, 12}}}},
       {"a.out_proj", "NonDynamicallyQuantizableLinear", {{"weight", {12, 12}}}, {"Linear"}}});
  Fsdp1Settings settings{.world = 2, .auto_wrap = SizeWrap{.min_elements = 100}};
  EXPECT_EQ(modules_of(plan_fsdp1(tree, settings)), (std::vector<std::string>{""}));
  // Any MixedPrecision puts the policy in an "or" with one that enters everything.
  settings.mixed_precision = MixedPrecision{};
  EXPECT_EQ(modules_of(plan_fsdp1(tree, settings)),
            (std::vector<std::string>{"", "a", "a.out_proj"}));
}

TEST(Fsdp1, MixedPrecisionWrapsBatchNormInFull) {
  const ModuleTree tree = tree_of_rows(
      {{"", "Net"},
       {"l", "Linear", {{"weight", {3, 3}}}},
       {"n", "BatchNorm1d", {{"weight", {3}}, {"bias", {3}}}, {"_BatchNorm", "_NormBase"}}});
  const Fsdp1Plan plan =
      plan_fsdp1(tree, {.world = 2,
                        .mixed_precision = MixedPrecision{.parameters = Dtype::bfloat16},
                        .auto_wrap = TransformerWrap{{"Outer"}}});
  EXPECT_EQ(modules_of(plan), (std::vector<std::string>{"", "n"}));
  EXPECT_EQ(plan.units[0].compute_dtype, Dtype::bfloat16);
  EXPECT_EQ(plan.units[1].compute_dtype, Dtype::float32);
  EXPECT_EQ(plan.warnings,
            (std::vector<Fsdp1Warning>{{Fsdp1Warning::Kind::batch_norm_in_full, "BatchNorm1d"}}));
}

TEST(Fsdp1, AlignsToSixteenBytesOfTheComputeDtype) {
  // 12 elements, then bias of 2: the bias starts at 12 in float32 (4 each), at 16 in bfloat16 (8).
  Fsdp1Settings settings{
      .world = 1, .use_original_parameters = true, .auto_wrap = NameWrap{{"out"}}};
  EXPECT_EQ(plan_fsdp1(nested(), settings).units[1].flat.begins,
            (std::vector<std::int64_t>{0, 12}));
  settings.mixed_precision = MixedPrecision{.parameters = Dtype::bfloat16};
  EXPECT_EQ(plan_fsdp1(nested(), settings).units[1].flat.begins,
            (std::vector<std::int64_t>{0, 16}));
}

TEST(Fsdp1, UnitsByHandInsideAWrappedModuleComeTooLate) {
  // The outer block took all parameters, so the inner one is a unit without any.
  const Fsdp1Plan plan = plan_fsdp1(nested(), {.wrapped_by_hand = {"b0", "b0.mid"}});
  EXPECT_EQ(modules_of(plan), (std::vector<std::string>{"", "b0", "b0.mid"}));
  EXPECT_TRUE(plan.units[2].parameters.empty());
  EXPECT_EQ(plan.units[1].parameters.size(), 2u);
}

TEST(Fsdp1, RefusesAPolicyAroundUnitsByHand) {
  EXPECT_EQ(exception_of(nested(), {.wrapped_by_hand = {"b0"}, .auto_wrap = AlwaysWrap{}}),
            "ValueError");
}

TEST(Fsdp1, CountsASharedModuleOnce) {
  ModuleTree tree = tree_of_rows({{"", "Net"},
                                  {"a", "Block"},
                                  {"a.l", "Linear", {{"weight", {6, 6}}}},
                                  {"b", "Block"},
                                  {"b.l", "Linear", {{"weight", {6, 6}}}}});
  share(tree, "a", "b");
  const Fsdp1Plan plan = plan_fsdp1(tree, {.world = 2, .auto_wrap = TransformerWrap{{"Block"}}});
  EXPECT_EQ(modules_of(plan), (std::vector<std::string>{"", "a"}));
  EXPECT_TRUE(plan.units[0].parameters.empty());
  // One unit: its second name is an alias.
  const Fsdp1Unit whole = plan_fsdp1(tree, {.world = 2}).units[0];
  EXPECT_EQ(whole.flat.unpadded_elements, 36);
  EXPECT_EQ(whole.aliases, (std::vector<Fsdp1Unit::Alias>{{"b.l.weight", "a.l.weight"}}));
}

TEST(Fsdp1, RefusesASharedModuleWrappedBelowAnotherParent) {
  ModuleTree tree = tree_of_rows({{"", "Net"},
                                  {"x", "P"},
                                  {"x.s", "Block"},
                                  {"x.s.l", "Linear", {{"weight", {4, 4}}}},
                                  {"y", "P"},
                                  {"y.s", "Block"},
                                  {"y.s.l", "Linear", {{"weight", {4, 4}}}}});
  share(tree, "x.s", "y.s");
  EXPECT_EQ(exception_of(tree, {.auto_wrap = TransformerWrap{{"Linear"}}}), "AssertionError");
  EXPECT_EQ(exception_of(tree, {.auto_wrap = ClassWrap{{"Linear"}}}), "none");
}

/// Two blocks whose weights are one parameter of 100, and biases of their own.
ModuleTree tied_blocks() {
  ModuleTree tree = tree_of_rows({{"", "Net", {{"p", {13}}}},
                                  {"a", "Linear", {{"weight", {10, 10}}, {"bias", {10}}}},
                                  {"b", "Linear", {{"weight", {10, 10}}, {"bias", {10}}}}});
  tie(tree, "a.weight", "b.weight");
  return tree;
}

TEST(Fsdp1, FlattensATieThatWasCutTwice) {
  const Fsdp1Plan plan = plan_fsdp1(tied_blocks(), {.world = 2, .auto_wrap = NameWrap{{"a", "b"}}});
  EXPECT_EQ(plan.units[1].flat.unpadded_elements, 110);
  EXPECT_EQ(plan.units[2].flat.unpadded_elements, 110);
  EXPECT_EQ(split_ties(tied_blocks(), plan),
            (std::vector<SplitTie>{{"a.weight", "b.weight", true}}));
}

TEST(Fsdp1, LeavesACutTieInTheFirstUnitWithOriginalParameters) {
  const Fsdp1Plan plan =
      plan_fsdp1(tied_blocks(),
                 {.world = 2, .use_original_parameters = true, .auto_wrap = NameWrap{{"a", "b"}}});
  EXPECT_EQ(names_of(plan.units[2]), (std::vector<std::string>{"b.bias"}));
  EXPECT_EQ(split_ties(tied_blocks(), plan),
            (std::vector<SplitTie>{{"a.weight", "b.weight", false}}));
}

TEST(Fsdp1, TiesInsideAUnitAreNotCut) {
  const Fsdp1Plan plan = plan_fsdp1(tied_blocks(), {.world = 2});
  EXPECT_EQ(plan.units[0].flat.unpadded_elements, 133);
  EXPECT_TRUE(split_ties(tied_blocks(), plan).empty());
}

TEST(Fsdp1, RanksDisagreeWhereTheSizePolicyCountsTheirOwnPiece) {
  // a becomes a unit of 100 + 10, fill of 2 between and 112 / 2 = 56 a rank. Of the weight, rank 0
  // holds 56 and rank 1 44: b counts 66 on rank 0, and 54 on rank 1.
  Fsdp1Settings settings{
      .world = 2, .use_original_parameters = true, .auto_wrap = SizeWrap{.min_elements = 60}};
  const std::vector<int> ranks{0, 1};
  EXPECT_EQ(modules_of(plan_fsdp1(tied_blocks(), settings, 0)),
            (std::vector<std::string>{"", "a", "b"}));
  EXPECT_EQ(modules_of(plan_fsdp1(tied_blocks(), settings, 1)),
            (std::vector<std::string>{"", "a"}));
  EXPECT_EQ(ranks_that_disagree(tied_blocks(), settings, ranks), std::pair(0, 1));
  settings.use_original_parameters = false;
  EXPECT_EQ(ranks_that_disagree(tied_blocks(), settings, ranks), std::nullopt);
}

TEST(Fsdp1, RefusesFrozenBesideOthersWithoutOriginalParameters) {
  ModuleTree tree = nested();
  parameter_of(tree, "b0.pre.weight").trainable = false;
  Fsdp1Settings settings{.auto_wrap = ClassWrap{{"Outer"}}};
  EXPECT_EQ(exception_of(tree, settings), "ValueError");
  settings.use_original_parameters = true;
  const Fsdp1Plan plan = plan_fsdp1(tree, settings);
  EXPECT_TRUE(plan.units[1].trainable);
  EXPECT_EQ(plan.warnings.front(), (Fsdp1Warning{Fsdp1Warning::Kind::mixed_trainable, "b0"}));
  // Callables are not asked beforehand, and nothing is said.
  settings.auto_wrap = TransformerWrap{{"Outer"}};
  EXPECT_EQ(plan_fsdp1(tree, settings).warnings.front().kind,
            Fsdp1Warning::Kind::no_shard_for_one_rank);
}

TEST(Fsdp1, RefusesTwoDtypesInAUnit) {
  ModuleTree tree = nested();
  parameter_of(tree, "out.bias").dtype = Dtype::bfloat16;
  EXPECT_EQ(exception_of(tree, {.world = 2}), "ValueError");
}

TEST(Fsdp1, RefusesScalarsAndUnitsWithoutElements) {
  EXPECT_EQ(exception_of(tree_of_rows({{"", "Net", {{"s", {}}}}}), {.world = 2}), "ValueError");
  EXPECT_EQ(exception_of(tree_of_rows({{"", "Net", {{"e", {0, 3}}}}}), {.world = 2}),
            "AssertionError");
}

TEST(Fsdp1, HybridShardsOverTheMeshsSecondAxis) {
  // 8 ranks as 2 replicas of 4 shards: rank 6 is shard 2 of its replica.
  const Fsdp1Plan plan = plan_fsdp1(
      nested(), {.world = 8, .strategy = ShardingStrategy::hybrid_shard, .mesh = Mesh{1, 2, 4}});
  EXPECT_EQ(plan.units[0].flat.shards, 4);
  EXPECT_EQ(plan.units[0].shard_of(6), 2);
}

TEST(Fsdp1, OthersShardOverTheMeshsFirstAxis) {
  const Fsdp1Plan plan = plan_fsdp1(nested(), {.world = 8, .mesh = Mesh{1, 2, 4}});
  EXPECT_EQ(plan.units[0].flat.shards, 2);
  EXPECT_EQ(plan.units[0].shard_of(3), 0);
  EXPECT_EQ(plan.units[0].shard_of(4), 1);
}

TEST(Fsdp1, HybridWithoutAMeshShardsWithinANodeIfAPolicyWraps) {
  Fsdp1Settings settings{
      .world = 8, .strategy = ShardingStrategy::hybrid_shard, .ranks_per_node = 4};
  EXPECT_EQ(exception_of(nested(), settings), "ValueError");
  settings.auto_wrap = ClassWrap{{"Outer"}};
  EXPECT_EQ(plan_fsdp1(nested(), settings).units[0].flat.shards, 4);
  settings.ranks_per_node = 3;
  EXPECT_EQ(exception_of(nested(), settings), "ValueError");
}

TEST(Fsdp1, CustomPolicyOverridesPerUnit) {
  const Fsdp1Plan plan = plan_fsdp1(
      nested(),
      {.world = 2,
       .auto_wrap = CustomWrap{{{.module = "out", .use_original_parameters = true},
                                {.module = "in", .strategy = ShardingStrategy::no_shard}}}});
  EXPECT_EQ(plan.units[0].alignment_elements, 0);
  EXPECT_EQ(plan.units[1].strategy, ShardingStrategy::no_shard);
  EXPECT_EQ(plan.units[2].alignment_elements, 4);
}

TEST(Fsdp1, IgnoredModulesAreInNoUnit) {
  const Fsdp1Plan plan = plan_fsdp1(
      nested(), {.world = 2, .auto_wrap = ClassWrap{{"Outer"}}, .ignored_modules = {"b0"}});
  EXPECT_EQ(modules_of(plan), (std::vector<std::string>{"", "b1"}));
  EXPECT_EQ(plan.units[0].flat.unpadded_elements, 36 + 12 + 2);
}

TEST(Fsdp1, RefusesAnAliasThatDoesNotRepeatItsModule) {
  // Such trees could unfold to 2^depth modules.
  ModuleTree tree = nested();
  tree.modules[6].same_as = 2;  // b1 has two modules, b0 four
  EXPECT_THROW(plan_fsdp1(tree, {}), Error);
}

TEST(Fsdp1, RefusesModulesThatNestTooDeep) {
  std::vector<ModuleRow> rows{{"", "Net", {{"w", {3}}}}};
  std::string name;
  for (int i = 0; i < 300; ++i) rows.push_back({name += i == 0 ? "a" : ".a", "Block"});
  EXPECT_THROW(plan_fsdp1(tree_of_rows(rows), {}), Error);
}

}  // namespace
}  // namespace shardscope

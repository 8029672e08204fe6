// What must hold of FSDP1's units whatever the tree, the policy and the world.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "core/pytorch/plans/fsdp1.h"
#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

using testing::ModuleRow;

/// Modules of two levels and up to three parameters each.
ModuleTree some_tree(std::mt19937& random) {
  const auto up_to = [&](unsigned most) { return static_cast<std::int64_t>(random() % most) + 1; };
  const auto parameters = [&] {
    std::vector<std::pair<std::string, Shape>> some;
    for (std::int64_t i = up_to(3); i > 0; --i)
      some.push_back({fmt::format("p{}", i), {up_to(9), up_to(7)}});
    return some;
  };
  std::vector<ModuleRow> rows{{"", "Net", parameters()}};
  for (std::int64_t i = up_to(5); i > 0; --i) {
    const std::string name = fmt::format("m{}", i);
    rows.push_back({name, i % 2 == 0 ? "Block" : "ModuleList", parameters()});
    for (std::int64_t j = up_to(4); j > 0; --j)
      rows.push_back({fmt::format("{}.n{}", name, j), "Linear", parameters()});
  }
  return testing::tree_of_rows(rows);
}

Fsdp1Settings some_settings(std::mt19937& random) {
  const std::vector<AutoWrap> policies{NoWrap{},
                                       AlwaysWrap{},
                                       TransformerWrap{{"Block"}},
                                       ClassWrap{{"Linear"}},
                                       SizeWrap{.min_elements = 40},
                                       SizeWrap{.min_elements = 150}};
  Fsdp1Settings settings{.world = static_cast<int>(random() % 9) + 1,
                         .use_original_parameters = random() % 2 == 0,
                         .auto_wrap = policies[random() % policies.size()]};
  if (random() % 4 == 0) settings.strategy = ShardingStrategy::no_shard;
  if (random() % 2 == 0) settings.mixed_precision = MixedPrecision{.parameters = Dtype::bfloat16};
  if (random() % 3 == 0) settings.ignored_modules = {"m1"};
  return settings;
}

std::int64_t elements_of_all(const ModuleTree& tree, const std::string& below) {
  std::int64_t elements = 0;
  for (const TreeParameter& parameter : tree.parameters)
    if (parameter.name.starts_with(below)) elements += parameter.elements();
  return elements;
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  std::int64_t total = 0;
  for (const std::int64_t number : numbers) total += number;
  return total;
}

TEST(Fsdp1Property, EveryElementIsInOneUnitOrIgnored) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const ModuleTree tree = some_tree(random);
    const Fsdp1Settings settings = some_settings(random);
    const Fsdp1Plan plan = plan_fsdp1(tree, settings);
    std::int64_t elements = settings.ignored_modules.empty() ? 0 : elements_of_all(tree, "m1.");
    for (const Fsdp1Unit& unit : plan.units) elements += sum(unit.flat.elements);
    ASSERT_EQ(elements, elements_of_all(tree, "")) << "round " << round;
  }
}

TEST(Fsdp1Property, TheRanksHoldEveryElementOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const ModuleTree tree = some_tree(random);
    const Fsdp1Plan plan = plan_fsdp1(tree, some_settings(random));
    for (const Fsdp1Unit& unit : plan.units) {
      std::int64_t elements = 0, padding = 0, fill = 0;
      for (int shard = 0; shard < unit.flat.shards; ++shard) {
        elements += piece_of(unit.flat, shard).elements;
        padding += piece_of(unit.flat, shard).padding_elements;
      }
      for (const Fill& f : unit.flat.fill) fill += f.elements;
      ASSERT_EQ(elements, sum(unit.flat.elements)) << "round " << round;
      ASSERT_EQ(elements + padding + fill, unit.flat.padded_elements()) << "round " << round;
    }
  }
}

TEST(Fsdp1Property, AShardsPieceIsTheSumOfItsParts) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> elements;
    for (int i = 0; i < 12; ++i) elements.push_back(random() % 3 == 0 ? 0 : random() % 9);
    const FlatParameter flat = lay_out({.parameter_elements = elements,
                                        .alignment_elements = random() % 2 == 0 ? 4 : 0,
                                        .ranks = static_cast<int>(random() % 6) + 1});
    for (int shard = 0; shard < flat.shards; ++shard) {
      std::int64_t sum_of_parts = 0;
      std::vector<std::int32_t> there;
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (const auto part = part_of(flat, i, shard)) {
          sum_of_parts += part->elements;
          there.push_back(static_cast<std::int32_t>(i));
        }
      const ShardPiece piece = piece_of(flat, shard);
      ASSERT_EQ(piece.elements, sum_of_parts) << "round " << round;
      ASSERT_EQ(piece.range.has_value(), !there.empty()) << "round " << round;
      if (there.empty()) continue;
      ASSERT_EQ(piece.range->first, there.front()) << "round " << round;
      ASSERT_EQ(piece.range->last, there.back()) << "round " << round;
    }
  }
}

TEST(Fsdp1Property, ParametersStartAligned) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    const ModuleTree tree = some_tree(random);
    Fsdp1Settings settings = some_settings(random);
    settings.use_original_parameters = true;
    for (const Fsdp1Unit& unit : plan_fsdp1(tree, settings).units)
      for (const std::int64_t begin : unit.flat.begins)
        ASSERT_EQ(begin * size_of(unit.compute_dtype).count % 16, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace shardscope

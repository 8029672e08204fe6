#include "core/pytorch/plans/module_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope {
namespace {

/// Two layers under a list and a head whose weight is the embedding and whose bias is its own.
Model tied_model() {
  Model model;
  model.modules = {{"", "Net"},
                   {"embed", "Embedding"},
                   {"layers", "ModuleList"},
                   {"layers.0", "Linear"},
                   {"layers.1", "Linear"},
                   {"head", "Linear"}};
  model.parameters = {{.name = "embed.weight", .shape = {7, 3}},
                      {.name = "layers.0.weight", .shape = {3, 3}},
                      {.name = "layers.1.weight", .shape = {3, 3}},
                      {.name = "head.bias", .shape = {7}}};
  model.tied = {{.later = "head.weight", .first = "embed.weight"}};
  return model;
}

TEST(ModuleTree, NestsModulesByName) {
  const ModuleTree tree = tree_of(tied_model());
  EXPECT_EQ(tree.modules[0].children, (std::vector<std::int32_t>{1, 2, 5}));
  EXPECT_EQ(tree.modules[2].children, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(tree.modules[4].parent, 2);
}

TEST(ModuleTree, ListsATiedParameterWhereItsModuleRegistersIt) {
  const ModuleTree tree = tree_of(tied_model());
  std::vector<std::string> names;
  for (const TreeParameter& parameter : tree.parameters) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed.weight", "layers.0.weight", "layers.1.weight",
                                             "head.weight", "head.bias"}));
  EXPECT_EQ(tree.parameters[3].same_as, 0);
  EXPECT_FALSE(tree.parameters[4].same_as.has_value());
}

}  // namespace
}  // namespace shardscope

// Module trees written down as a list of modules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/plans/module_tree.h"

namespace shardscope::testing {

struct ModuleRow {
  std::string name;  ///< full; "" is the root, which comes first
  std::string class_name;
  std::vector<std::pair<std::string, Shape>> parameters = {};
  std::vector<std::string> bases = {};
};

/// Rows in pre-order.
ModuleTree tree_of_rows(const std::vector<ModuleRow>& rows);

/// Makes the parameter `later` the same object as `first`, which stands before it.
void tie(ModuleTree& tree, const std::string& first, const std::string& later);
/// Makes the module `later` the same object as `first`, modules and parameters below it included.
void share(ModuleTree& tree, const std::string& first, const std::string& later);

TreeParameter& parameter_of(ModuleTree& tree, const std::string& name);

}  // namespace shardscope::testing

#include "tests/core/module_rows.h"

#include <algorithm>

#include "core/base/error.h"

namespace shardscope::testing {
namespace {

/// Throws where a test misspells a name.
template <typename Row>
std::int32_t index_of(const std::vector<Row>& rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  if (found == rows.end()) throw Error({.where = "test", .what = "no " + name, .way_out = {}});
  return static_cast<std::int32_t>(found - rows.begin());
}

}  // namespace

ModuleTree tree_of_rows(const std::vector<ModuleRow>& rows) {
  ModuleTree tree;
  for (const ModuleRow& row : rows) {
    const auto id = static_cast<std::int32_t>(tree.modules.size());
    TreeModule module{.name = row.name, .class_name = row.class_name, .bases = row.bases};
    if (!row.name.empty()) {
      const std::size_t dot = row.name.rfind('.');
      const std::string parent = dot == std::string::npos ? "" : row.name.substr(0, dot);
      module.parent = index_of(tree.modules, parent);
      tree.modules[static_cast<std::size_t>(module.parent)].children.push_back(id);
    }
    for (const auto& [name, shape] : row.parameters) {
      module.parameters.push_back(static_cast<std::int32_t>(tree.parameters.size()));
      tree.parameters.push_back(
          {.name = row.name.empty() ? name : row.name + "." + name, .shape = shape});
    }
    tree.modules.push_back(std::move(module));
  }
  return tree;
}

void tie(ModuleTree& tree, const std::string& first, const std::string& later) {
  parameter_of(tree, later).same_as = index_of(tree.parameters, first);
}

void share(ModuleTree& tree, const std::string& first, const std::string& later) {
  for (TreeModule& module : tree.modules)
    if (module.name == later || module.name.starts_with(later + "."))
      module.same_as = index_of(tree.modules, first + module.name.substr(later.size()));
  for (TreeParameter& parameter : tree.parameters)
    if (parameter.name.starts_with(later + "."))
      parameter.same_as = index_of(tree.parameters, first + parameter.name.substr(later.size()));
}

TreeParameter& parameter_of(ModuleTree& tree, const std::string& name) {
  return tree.parameters[static_cast<std::size_t>(index_of(tree.parameters, name))];
}

}  // namespace shardscope::testing

#include "core/pytorch/plans/module_tree.h"

#include <algorithm>
#include <unordered_map>

#include "core/model/module_classes.h"
#include "core/model/module_names.h"

namespace shardscope {
namespace {

using ModuleIndex = std::unordered_map<std::string_view, std::int32_t>;

/// Modules without their parameters. A model's modules stand in pre-order already.
ModuleIndex add_modules(const Model& model, ModuleTree& tree) {
  ModuleIndex index;
  for (const Module& module : model.modules) {
    const auto id = static_cast<std::int32_t>(tree.modules.size());
    tree.modules.push_back({.name = module.name,
                            .class_name = module.class_name,
                            .bases = module.bases.empty()
                                         ? module_class_bases(model, module.class_name)
                                         : module.bases});
    if (!module.same_as.empty()) tree.modules.back().same_as = index.at(module.same_as);
    index[module.name] = id;
    if (module.name.empty()) continue;
    TreeModule& added = tree.modules.back();
    added.parent = index.at(owner_of(module.name));
    tree.modules[static_cast<std::size_t>(added.parent)].children.push_back(id);
  }
  return index;
}

}  // namespace

bool TreeModule::is(std::string_view class_or_base) const {
  return class_name == class_or_base ||
         std::find(bases.begin(), bases.end(), class_or_base) != bases.end();
}

bool names_classes(const ModuleTree& tree) {
  return std::any_of(tree.modules.begin(), tree.modules.end(),
                     [](const TreeModule& module) { return !module.class_name.empty(); });
}

ModuleTree tree_of(const Model& model) {
  ModuleTree tree;
  const ModuleIndex index = add_modules(model, tree);
  std::vector<std::vector<ParameterName>> of_module(tree.modules.size());
  for (const ParameterName& name : model.parameter_names())
    of_module[static_cast<std::size_t>(index.at(owner_of(name.name)))].push_back(name);

  std::vector<std::int32_t> first(model.parameters.size());
  for (std::size_t module = 0; module < of_module.size(); ++module) {
    for (const ParameterName& name : of_module[module]) {
      const auto id = static_cast<std::int32_t>(tree.parameters.size());
      const Parameter& parameter = model.parameters[name.parameter.value];
      TreeParameter added{.name = std::string(name.name),
                          .shape = parameter.shape,
                          .dtype = parameter.dtype,
                          .trainable = parameter.trainable};
      if (name.is_first)
        first[name.parameter.value] = id;
      else
        added.same_as = first[name.parameter.value];
      tree.parameters.push_back(std::move(added));
      tree.modules[module].parameters.push_back(id);
    }
  }
  return tree;
}

}  // namespace shardscope

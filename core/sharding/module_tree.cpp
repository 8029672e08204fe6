#include "core/sharding/module_tree.h"

#include <algorithm>
#include <unordered_map>

#include "core/model/module_classes.h"

namespace shardscope {
namespace {

/// The module that a name belongs to: "a.b" of "a.b.weight"; "" of "weight".
std::string_view owner_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

using ModuleIndex = std::unordered_map<std::string_view, std::int32_t>;

/// Modules without their parameters. A model's modules stand in pre-order already.
ModuleIndex add_modules(const Model& model, ModuleTree& tree) {
  ModuleIndex index;
  for (const Module& module : model.modules) {
    const auto id = static_cast<std::int32_t>(tree.modules.size());
    tree.modules.push_back({.name = module.name,
                            .class_name = module.class_name,
                            .bases = module_class_bases(model, module.class_name)});
    index[module.name] = id;
    if (module.name.empty()) continue;
    TreeModule& added = tree.modules.back();
    added.parent = index.at(owner_of(module.name));
    tree.modules[static_cast<std::size_t>(added.parent)].children.push_back(id);
  }
  return index;
}

struct NamedParameter {
  std::string_view name;
  const Parameter* parameter;
  bool alias;
};

/// Aliases were collected after the module's own parameters; torch's layers register the weight
/// before the bias, whichever of the two is tied.
void order_as_registered(std::vector<NamedParameter>& parameters) {
  const bool aliased = std::any_of(parameters.begin(), parameters.end(),
                                   [](const NamedParameter& p) { return p.alias; });
  if (!aliased) return;
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const NamedParameter& p) { return !p.name.ends_with(".bias"); });
}

}  // namespace

bool TreeModule::is(std::string_view class_or_base) const {
  return class_name == class_or_base ||
         std::find(bases.begin(), bases.end(), class_or_base) != bases.end();
}

ModuleTree tree_of(const Model& model) {
  ModuleTree tree;
  const ModuleIndex index = add_modules(model, tree);
  std::vector<std::vector<NamedParameter>> of_module(tree.modules.size());
  const auto add = [&](std::string_view name, const Parameter& parameter, bool alias) {
    of_module[static_cast<std::size_t>(index.at(owner_of(name)))].push_back(
        {.name = name, .parameter = &parameter, .alias = alias});
  };
  for (const Parameter& parameter : model.parameters) add(parameter.name, parameter, false);
  for (const TiedName& tied : model.tied)
    add(tied.later, model.parameters[model.find(tied.first).value], true);

  std::unordered_map<std::string_view, std::int32_t> first;
  for (std::size_t module = 0; module < of_module.size(); ++module) {
    order_as_registered(of_module[module]);
    for (const NamedParameter& named : of_module[module]) {
      const auto id = static_cast<std::int32_t>(tree.parameters.size());
      TreeParameter added{.name = std::string(named.name),
                          .shape = named.parameter->shape,
                          .dtype = named.parameter->dtype,
                          .trainable = named.parameter->trainable};
      if (named.alias)
        added.same_as = first.at(named.parameter->name);
      else
        first[named.parameter->name] = id;
      tree.parameters.push_back(std::move(added));
      tree.modules[module].parameters.push_back(id);
    }
  }
  return tree;
}

}  // namespace shardscope

#include "core/pytorch/plans/module_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

constexpr std::int32_t deepest = 256;

/// What follows the last dot.
std::string last_part(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

Error refused(std::string_view name, std::string what) {
  return Error({.where = fmt::format("\"{}\"", name), .what = std::move(what), .way_out = {}});
}

Refusal not_there(std::string_view where, std::string_view kind, std::string_view name) {
  return Refusal("AttributeError", {.where = std::string(where),
                                    .what = fmt::format("the model has no {} \"{}\"", kind, name),
                                    .way_out = "give its full name, as named_modules() does"});
}

/// How many modules each subtree lists. Modules stand in pre-order.
std::vector<std::int32_t> subtree_sizes(const ModuleTree& tree) {
  std::vector<std::int32_t> sizes(tree.modules.size(), 1), depths(tree.modules.size(), 0);
  for (std::size_t i = 1; i < tree.modules.size(); ++i) {
    const TreeModule& module = tree.modules[i];
    if (module.parent < 0 || static_cast<std::size_t>(module.parent) >= i)
      throw refused(module.name, "does not follow its parent");
    depths[i] = depths[static_cast<std::size_t>(module.parent)] + 1;
    if (depths[i] > deepest)
      throw refused(module.name,
                    fmt::format("modules nest {} deep, at most {} are walked", depths[i], deepest));
  }
  for (std::size_t i = tree.modules.size(); i-- > 1;)
    sizes[static_cast<std::size_t>(tree.modules[i].parent)] += sizes[i];
  return sizes;
}

/// A walk with duplicates repeats an alias's modules, so the tree must: else few lines could unfold
/// without bound.
void check_alias(const ModuleTree& tree, std::size_t alias,
                 const std::vector<std::int32_t>& sizes) {
  const TreeModule& module = tree.modules[alias];
  const auto first = static_cast<std::size_t>(*module.same_as);
  if (*module.same_as < 0 || first >= alias)
    throw refused(module.name, "is said to be a module that does not stand before it");
  if (sizes[first] != sizes[alias])
    throw refused(module.name, fmt::format("is said to be \"{}\", which has {} modules and not {}",
                                           tree.modules[first].name, sizes[first], sizes[alias]));
}

}  // namespace

ModuleGraph::ModuleGraph(const ModuleTree& tree) : tree_(&tree) {
  if (tree.modules.empty()) throw refused("", "the model has no modules");
  add_parameters();
  add_modules(subtree_sizes(tree));
  seen_node_.resize(nodes_.size());
  seen_held_.resize(held_.size());
}

void ModuleGraph::add_parameters() {
  for (const TreeParameter& parameter : tree_->parameters) {
    const auto source = static_cast<std::int32_t>(held_of_tree_.size());
    parameters_by_name_.emplace(parameter.name, source);
    if (parameter.same_as) {
      if (*parameter.same_as < 0 || *parameter.same_as >= source)
        throw refused(parameter.name, "is said to be a parameter that does not stand before it");
      held_of_tree_.push_back(held(*parameter.same_as));
      continue;
    }
    held_of_tree_.push_back(HeldParameterId::of(held_.size()));
    held_.push_back({.source = source, .elements = parameter.elements()});
  }
}

void ModuleGraph::add_modules(const std::vector<std::int32_t>& sizes) {
  const ModuleTree& tree = *tree_;
  for (std::size_t i = 0; i < tree.modules.size(); ++i) {
    const TreeModule& module = tree.modules[i];
    modules_by_name_.emplace(module.name, static_cast<std::int32_t>(i));
    if (module.same_as) {
      check_alias(tree, i, sizes);
      nodes_of_tree_.push_back(node_of(*module.same_as));
      continue;
    }
    nodes_of_tree_.push_back(NodeId::of(nodes_.size()));
    ModuleNode& node = nodes_.emplace_back();
    node.source = static_cast<std::int32_t>(i);
    for (const std::int32_t id : module.parameters)
      node.parameters.push_back(
          {last_part(tree.parameters[static_cast<std::size_t>(id)].name), held(id)});
  }
  for (ModuleNode& node : nodes_)
    for (const std::int32_t child : tree.modules[static_cast<std::size_t>(node.source)].children)
      node.children.push_back(
          {last_part(tree.modules[static_cast<std::size_t>(child)].name), node_of(child)});
}

NodeId ModuleGraph::find(std::string_view module, std::string_view where) const {
  const auto found = modules_by_name_.find(module);
  if (found == modules_by_name_.end()) throw not_there(where, "module", module);
  return node_of(found->second);
}

HeldParameterId ModuleGraph::find_parameter(std::string_view name, std::string_view where) const {
  const auto found = parameters_by_name_.find(name);
  if (found == parameters_by_name_.end()) throw not_there(where, "parameter", name);
  return held(found->second);
}

void ModuleGraph::collect_modules(NodeId from, std::vector<NodeId>& into) {
  if (std::exchange(seen_node_[from.value], walk_) == walk_) return;
  into.push_back(from);
  for (const ModuleNode::Child& child : nodes_[from.value].children)
    collect_modules(child.node, into);
}

std::vector<NodeId> ModuleGraph::modules(NodeId from) {
  ++walk_;
  std::vector<NodeId> found;
  collect_modules(from, found);
  return found;
}

std::vector<ModuleGraph::PlacedChild> ModuleGraph::named_children(NodeId of) {
  ++walk_;
  const std::vector<ModuleNode::Child>& children = nodes_[of.value].children;
  std::vector<PlacedChild> found;
  for (std::size_t place = 0; place < children.size(); ++place)
    if (std::exchange(seen_node_[children[place].node.value], walk_) != walk_)
      found.push_back({place, children[place].node});
  return found;
}

std::vector<HeldParameterId> ModuleGraph::parameters(NodeId from) {
  std::vector<HeldParameterId> found;
  for (const NodeId node : modules(from))
    for (const ModuleNode::Slot& slot : nodes_[node.value].parameters)
      if (std::exchange(seen_held_[slot.parameter.value], walk_) != walk_)
        found.push_back(slot.parameter);
  return found;
}

void ModuleGraph::visit_slots(NodeId from, const SlotVisitor& visit) const {
  std::string path;
  visit_slots(from, path, visit);
}

void ModuleGraph::visit_slots(NodeId from, std::string& path, const SlotVisitor& visit) const {
  const ModuleNode& node = nodes_[from.value];
  for (const ModuleNode::Slot& slot : node.parameters)
    visit(from, path + slot.name, slot.parameter);
  for (const ModuleNode::Child& child : node.children) {
    const std::size_t length = path.size();
    path += child.name;
    if (!child.name.empty()) path += '.';
    visit_slots(child.node, path, visit);
    path.resize(length);
  }
}

NodeId ModuleGraph::child(NodeId of, std::string_view name) const {
  for (const ModuleNode::Child& child : nodes_[of.value].children)
    if (!child.name.empty() && child.name == name) return child.node;
  if (nodes_[of.value].is_wrapper()) return child(nodes_[of.value].children.front().node, name);
  return {};
}

NodeId ModuleGraph::add_wrapper() {
  seen_node_.push_back(0);
  nodes_.emplace_back();
  return NodeId::of(nodes_.size() - 1);
}

void ModuleGraph::set_child(NodeId of, std::string_view name, NodeId child) {
  std::vector<ModuleNode::Child>& children = nodes_[of.value].children;
  const auto found =
      std::find_if(children.begin(), children.end(),
                   [&](const ModuleNode::Child& existing) { return existing.name == name; });
  if (found != children.end())
    found->node = child;
  else
    children.push_back({std::string(name), child});
}

void ModuleGraph::replace_child(NodeId of, std::size_t place, NodeId child) {
  nodes_[of.value].children[place].node = child;
}

HeldParameterId ModuleGraph::add_flat_parameter(std::int64_t elements) {
  seen_held_.push_back(0);
  held_.push_back({.source = -1, .elements = elements, .flattened = true});
  return HeldParameterId::of(held_.size() - 1);
}

void ModuleGraph::set_parameter(NodeId of, std::string_view name, HeldParameterId parameter) {
  std::vector<ModuleNode::Slot>& slots = nodes_[of.value].parameters;
  const auto found =
      std::find_if(slots.begin(), slots.end(),
                   [&](const ModuleNode::Slot& existing) { return existing.name == name; });
  if (found != slots.end())
    found->parameter = parameter;
  else
    slots.push_back({std::string(name), parameter});
}

void ModuleGraph::remove_parameter(NodeId of, HeldParameterId parameter) {
  std::erase_if(nodes_[of.value].parameters,
                [&](const ModuleNode::Slot& slot) { return slot.parameter == parameter; });
}

}  // namespace shardscope

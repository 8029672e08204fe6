// Modules and parameters as objects, while FSDP1's constructors change them: wrappers are inserted,
// parameters vanish into FlatParameters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/quantities.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

struct NodeTag;
using NodeId = Id<NodeTag>;  ///< a module object, or a FullyShardedDataParallel around one
struct HeldParameterTag;
using HeldParameterId = Id<HeldParameterTag>;  ///< a parameter object

/// A parameter object. One that is tied stands in several modules.
struct HeldParameter {
  /// Of its first name, index in ModuleTree::parameters; -1: a FlatParameter.
  std::int32_t source = -1;
  std::int64_t elements = 0;  ///< numel() on this rank, now
  bool flattened = false;     ///< _fsdp_flattened
  bool sharded = false;       ///< every rank holds another part
};

struct ModuleNode {
  struct Child {
    std::string name;  ///< empty: what a wrapper wraps
    NodeId node;
  };
  struct Slot {
    std::string name;
    HeldParameterId parameter;
  };
  std::int32_t source = -1;  ///< first index in ModuleTree::modules; -1: a wrapper
  std::vector<Child> children;
  std::vector<Slot> parameters;

  bool is_wrapper() const { return source < 0; }
};

/// The object graph of a tree. Its walks follow torch.nn.Module.
class ModuleGraph {
 public:
  /// Throws Error for modules that nest deeper than 256, and for an alias that does not repeat the
  /// module it names.
  explicit ModuleGraph(const ModuleTree& tree);

  const ModuleTree& tree() const { return *tree_; }
  NodeId root() const { return NodeId::of(0); }
  /// Of an index in ModuleTree::modules, aliases included.
  NodeId node_of(std::int32_t module) const {
    return nodes_of_tree_[static_cast<std::size_t>(module)];
  }
  HeldParameterId held(std::int32_t parameter) const {
    return held_of_tree_[static_cast<std::size_t>(parameter)];
  }

  /// By any of its names; Refusal, as get_submodule raises, naming `where`.
  NodeId find(std::string_view module, std::string_view where) const;
  /// The same of a parameter, as get_parameter.
  HeldParameterId find_parameter(std::string_view name, std::string_view where) const;

  const ModuleNode& operator[](NodeId id) const { return nodes_[id.value]; }
  const TreeModule& module(NodeId id) const {
    return tree_->modules[static_cast<std::size_t>(nodes_[id.value].source)];
  }
  const HeldParameter& operator[](HeldParameterId id) const { return held_[id.value]; }
  HeldParameter& operator[](HeldParameterId id) { return held_[id.value]; }

  /// modules(): pre-order, every object once.
  std::vector<NodeId> modules(NodeId from);
  /// named_children(): every object once, with its place among all children.
  struct PlacedChild {
    std::size_t place;
    NodeId node;
  };
  std::vector<PlacedChild> named_children(NodeId of);
  /// parameters(): every object once.
  std::vector<HeldParameterId> parameters(NodeId from);
  /// named_parameters(remove_duplicate=False), names without the wrappers' own.
  using SlotVisitor = std::function<void(NodeId holder, const std::string& name, HeldParameterId)>;
  void visit_slots(NodeId from, const SlotVisitor& visit) const;
  /// getattr of a child, through wrappers; invalid if there is none.
  NodeId child(NodeId of, std::string_view name) const;

  NodeId add_wrapper();
  void set_child(NodeId of, std::string_view name, NodeId child);
  void replace_child(NodeId of, std::size_t place, NodeId child);
  HeldParameterId add_flat_parameter(std::int64_t elements);
  void set_parameter(NodeId of, std::string_view name, HeldParameterId parameter);
  void remove_parameter(NodeId of, HeldParameterId parameter);

 private:
  void add_parameters();
  void add_modules(const std::vector<std::int32_t>& subtree_sizes);
  void collect_modules(NodeId from, std::vector<NodeId>& into);
  void visit_slots(NodeId from, std::string& path, const SlotVisitor& visit) const;

  const ModuleTree* tree_;
  std::vector<ModuleNode> nodes_;
  std::vector<HeldParameter> held_;
  std::vector<NodeId> nodes_of_tree_;
  std::vector<HeldParameterId> held_of_tree_;
  std::unordered_map<std::string_view, std::int32_t> modules_by_name_, parameters_by_name_;
  // A walk has seen what carries its number: clearing per walk would cost the whole graph each
  // time.
  std::vector<std::uint32_t> seen_node_, seen_held_;
  std::uint32_t walk_ = 0;
};

}  // namespace shardscope

#include "core/pytorch/plans/fsdp1_frozen.h"

#include <algorithm>
#include <deque>

namespace shardscope {
namespace {

/// _get_post_order_named_modules: the reverse of a depth-first walk with a stack, which decides
/// under which parent a shared module is met.
std::vector<NodeId> post_order(ModuleGraph& graph) {
  std::set<NodeId> visited{graph.root()};
  std::vector<NodeId> stack{graph.root()}, order;
  while (!stack.empty()) {
    const NodeId module = stack.back();
    stack.pop_back();
    order.push_back(module);
    for (const ModuleGraph::PlacedChild& child : graph.named_children(module))
      if (visited.insert(child.node).second) stack.push_back(child.node);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

/// _get_managed_param_to_fqn: the parameters below `unit` in modules that no earlier unit visited.
std::vector<HeldParameterId> managed_parameters(ModuleGraph& graph, NodeId unit,
                                                std::set<NodeId>& visited) {
  std::vector<HeldParameterId> managed;
  std::deque<NodeId> queue{unit};
  visited.insert(unit);
  while (!queue.empty()) {
    const NodeId module = queue.front();
    queue.pop_front();
    for (const ModuleNode::Slot& slot : graph[module].parameters) managed.push_back(slot.parameter);
    for (const ModuleGraph::PlacedChild& child : graph.named_children(module))
      if (visited.insert(child.node).second) queue.push_back(child.node);
  }
  return managed;
}

}  // namespace

std::vector<NodeId> units_partly_frozen(ModuleGraph& graph, const std::set<NodeId>& units,
                                        const std::function<bool(HeldParameterId)>& ignored) {
  std::vector<NodeId> mixed;
  std::set<NodeId> visited;
  for (const NodeId module : post_order(graph)) {
    if (!units.contains(module)) continue;
    bool frozen = false, trainable = false;
    for (const HeldParameterId id : managed_parameters(graph, module, visited)) {
      if (ignored(id)) continue;
      const bool trains =
          graph.tree().parameters[static_cast<std::size_t>(graph[id].source)].trainable;
      (trains ? trainable : frozen) = true;
    }
    if (frozen && trainable) mixed.push_back(module);
  }
  return mixed;
}

}  // namespace shardscope

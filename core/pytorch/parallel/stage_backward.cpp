#include "core/pytorch/parallel/stage_backward.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/pytorch/engine/accumulate_grad.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

using Nodes = std::vector<Node*>;
using ReverseEdges = std::unordered_map<const Node*, Nodes>;  // looked up, never walked
using NodeSet = std::unordered_set<const Node*>;              // looked up, never walked

/// _get_grad_fn_or_grad_acc of a leaf, which makes a view to come to it.
NodeRef accumulator_of(Session& s, const Tensor& leaf) {
  view_as(s, leaf, leaf);
  return grad_accumulator(s, leaf);
}

/// construct_reverse_graph.
ReverseEdges reverse_edges_of(Node& root) {
  ReverseEdges reverse;
  Nodes queue{&root};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    Node& node = *queue[next];
    for (const Edge& edge : node.next_edges()) {
      if (!edge.valid()) continue;
      Nodes& before = reverse[edge.node.get()];
      if (before.empty()) queue.push_back(edge.node.get());
      before.push_back(&node);
    }
  }
  return reverse;
}

struct Closure {
  NodeSet nodes;
  Nodes targets;  ///< where it ended, in the order in which they were found
};

/// reverse_closure.
Closure reverse_closure(Node& root, const NodeSet& targets, const ReverseEdges& reverse) {
  Closure closure{.nodes = {&root}, .targets = {}};
  Nodes queue{&root};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const auto found = reverse.find(queue[next]);
    if (found == reverse.end()) continue;
    for (Node* before : found->second) {
      if (closure.nodes.contains(before)) continue;
      if (targets.contains(before)) {
        if (std::ranges::find(closure.targets, before) == closure.targets.end())
          closure.targets.push_back(before);
        continue;
      }
      closure.nodes.insert(before);
      queue.push_back(before);
    }
  }
  return closure;
}

void add_all(std::vector<NodeRef>& nodes, const std::vector<NodeRef>& more) {
  for (const NodeRef& node : more)
    if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
}

/// get_param_groups. Python's sets have no order; here it is that of the weights.
WeightGroups groups_of(Node& root, const NodeRef& input, const std::vector<NodeRef>& weights) {
  const ReverseEdges reverse = reverse_edges_of(root);
  const NodeSet of_input = reverse_closure(*input, {}, reverse).nodes;
  std::map<const Node*, std::shared_ptr<WeightGroup>> group_of;  // looked up, never walked
  WeightGroups groups;
  for (const NodeRef& weight : weights) {
    auto group = std::make_shared<WeightGroup>();
    group->weights = {weight};
    const Nodes begins = reverse_closure(*weight, of_input, reverse).targets;
    for (Node* node : begins) group->intermediates.emplace_back(node);
    for (Node* node : begins) {
      std::shared_ptr<WeightGroup>& known = group_of[node];
      if (known && known != group) {
        add_all(known->weights, group->weights);
        add_all(known->intermediates, group->intermediates);
        group = known;
      }
      known = group;
    }
    if (!begins.empty() && std::ranges::find(groups, group) == groups.end())
      groups.push_back(group);
  }
  return groups;
}

/// Hooks on nodes, as long as this lives.
class PreHooks {
 public:
  explicit PreHooks(Session& s) : s_(s) {}
  PreHooks(const PreHooks&) = delete;
  PreHooks& operator=(const PreHooks&) = delete;
  ~PreHooks() {
    for (const auto& [node, handle] : handles_) node->remove_hook(handle);
  }
  void add(const NodeRef& node, NodePreHook hook) {
    handles_.emplace_back(node, node->register_prehook(s_, std::move(hook)));
  }

 private:
  Session& s_;
  std::vector<std::pair<NodeRef, HookHandle>> handles_;
};

}  // namespace

Tensor stage_backward_input(Session& s, const Edge& output, const Tensor& gradient,
                            const Tensor& input, const Tensors& weights, WeightGroups& groups) {
  const NodeRef input_node = accumulator_of(s, input);
  std::vector<NodeRef> weight_nodes;
  for (const Tensor& weight : weights) weight_nodes.push_back(accumulator_of(s, weight));
  groups = groups_of(*output.node, input_node, weight_nodes);
  PreHooks hooks(s);
  for (const auto& group : groups) {
    group->gradients.resize(group->intermediates.size());
    for (std::size_t i = 0; i < group->intermediates.size(); ++i)
      hooks.add(group->intermediates[i],
                [group, i](Session&, const Tensors& arrived) { group->gradients[i] = arrived; });
  }
  Tensors result = s.engine().grad({.outputs = {output},
                                    .gradients = {gradient},
                                    .inputs = {{input_node, 0}},
                                    .keep_graph = true});
  input.set_grad(result.front());
  return std::move(result.front());
}

void stage_backward_weight(Session& s, const Tensors& weights, const WeightGroups& groups) {
  std::map<const Node*, Tensor> weight_of;  // looked up, never walked
  for (const Tensor& weight : weights) weight_of[accumulator_of(s, weight).get()] = weight;
  // Names of a Python loop: each holds what it has until it is given something else.
  std::vector<Edge> begins;
  Tensors arrived, results;
  for (const auto& group : groups) {
    begins.clear();
    arrived.clear();
    for (std::size_t i = 0; i < group->intermediates.size(); ++i)
      for (std::size_t j = 0; j < group->gradients[i].size(); ++j) {
        if (!group->gradients[i][j].defined()) continue;
        begins.push_back({group->intermediates[i], static_cast<std::uint32_t>(j)});
        arrived.push_back(group->gradients[i][j]);
      }
    PreHooks clamps(s);
    if (group->intermediates.size() > 1)
      for (std::size_t i = 0; i < group->intermediates.size(); ++i)
        clamps.add(group->intermediates[i],
                   [saved = group->gradients[i]](Session&, Tensors& given) { given = saved; });
    group->intermediates.clear();
    if (begins.empty()) continue;
    std::vector<Edge> ends;
    for (const NodeRef& weight : group->weights) ends.push_back({weight, 0});
    results = s.engine().grad({.outputs = begins, .gradients = arrived, .inputs = ends});
    group->gradients.clear();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined()) continue;  // no way leads to it
      const Tensor& weight = weight_of.at(group->weights[i].get());
      if (weight.grad().defined())
        add_(s, weight.grad(), results[i]);
      else
        weight.set_grad(results[i]);
    }
  }
}

}  // namespace shardscope::eager::parallel

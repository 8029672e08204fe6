#include "core/pytorch/engine/autograd.h"

#include <algorithm>

#include "core/pytorch/engine/accumulate_grad.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {

Node::Node(Session& s, std::string_view name, std::uint64_t sequence)
    : name_(name), sequence_(sequence), module_(s.current_module()) {}

Node::~Node() = default;

bool Node::needs_any() const {
  return std::any_of(next_.begin(), next_.end(), [](const Edge& edge) { return edge.valid(); });
}

std::uint32_t Node::add_input(const InputMetadata& metadata) {
  inputs_.push_back(metadata);
  return static_cast<std::uint32_t>(inputs_.size() - 1);
}

StreamId Node::stream() const {
  for (const InputMetadata& input : inputs_)
    if (input.device == Device::cuda) return input.stream;
  return default_stream;
}

void Node::save(Session& s, std::string_view field, const Tensor& tensor) {
  if (tensor.defined()) saved_.emplace_back(s, field, tensor, false);
}

void Node::save_listed(Session& s, std::string_view field, std::int32_t index,
                       const Tensor& tensor) {
  if (!tensor.defined()) return;
  saved_.emplace_back(s, field, tensor, false);
  saved_.back().set_index(index);
}

void Node::save_output(Session& s, std::string_view field, const Tensor& tensor) {
  if (tensor.defined()) saved_.emplace_back(s, field, tensor, true);
}

void Node::save_output_listed(Session& s, std::string_view field, std::int32_t index,
                              const Tensor& tensor) {
  if (!tensor.defined()) return;
  saved_.emplace_back(s, field, tensor, true);
  saved_.back().set_index(index);
}

Tensor Node::saved(Session& s, std::string_view field) { return saved_listed(s, field, -1); }

namespace {

/// Fields are named by literals, of which the linker keeps one each.
bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.data() == b.data() || a == b);
}

}  // namespace

Tensor Node::saved_listed(Session& s, std::string_view field, std::int32_t index) {
  for (const SavedTensor& saved : saved_)
    if (saved.index() == index && is_same(saved.field(), field))
      return saved.unpack(s, NodeRef(this));
  return {};
}

/// In the order of the generated release_variables(): inputs by name, then outputs by name.
void Node::release_saved() {
  if (saved_.size() < 2) {
    for (SavedTensor& saved : saved_) saved.release();
    return;
  }
  const auto goes_before = [](const SavedTensor& a, const SavedTensor& b) {
    if (a.is_output() != b.is_output()) return b.is_output();
    return a.field() < b.field();
  };
  if (std::is_sorted(saved_.begin(), saved_.end(), goes_before)) {
    for (SavedTensor& saved : saved_) saved.release();
    return;
  }
  std::vector<SavedTensor*> order;
  for (SavedTensor& saved : saved_) order.push_back(&saved);
  std::stable_sort(order.begin(), order.end(),
                   [&](const SavedTensor* a, const SavedTensor* b) { return goes_before(*a, *b); });
  for (SavedTensor* saved : order) saved->release();
}

NodeHooks& Node::hooks() {
  if (!hooks_) hooks_ = std::make_unique<NodeHooks>();
  return *hooks_;
}

HookHandle Node::register_prehook(Session& s, NodePreHook hook) {
  const std::uint64_t id = s.take_hook_id();
  hooks().pre_hooks.emplace_back(id, std::move(hook));
  return {id};
}

HookHandle Node::register_hook(Session& s, NodePostHook hook) {
  const std::uint64_t id = s.take_hook_id();
  hooks().post_hooks.emplace_back(id, std::move(hook));
  return {id};
}

void Node::remove_hook(HookHandle handle) {
  if (!hooks_) return;
  std::erase_if(hooks_->tensor_pre_hooks, [&](const auto& hook) { return hook.id == handle.id; });
  const auto has_id = [&](const auto& entry) { return entry.first == handle.id; };
  std::erase_if(hooks_->pre_hooks, has_id);
  std::erase_if(hooks_->post_hooks, has_id);
}

namespace {

/// Takes a node's edges; nodes that nobody else holds are to go next. torch/csrc/autograd/node.cpp,
/// gatherFunctions: no recursion, however long the graph.
void gather(Node& node, Edges& edges, std::vector<NodeRef>& to_go) {
  node.release_saved();
  for (Edge& edge : edges)
    if (edge.valid() && edge.node->references() == 1)
      to_go.push_back(std::move(edge.node));
    else
      edge.node.reset();
}

}  // namespace

void Node::release_last() {
  std::vector<NodeRef> to_go;
  gather(*this, next_, to_go);
  delete this;
  while (!to_go.empty()) {
    const NodeRef node = std::move(to_go.back());
    to_go.pop_back();
    gather(*node, node->next_, to_go);
  }
}

bool any_requires_grad(const Session& s, std::span<const Tensor* const> tensors) {
  return s.grad_enabled && std::any_of(tensors.begin(), tensors.end(), [](const Tensor* tensor) {
           return tensor->defined() && tensor->requires_grad();
         });
}

Edges next_edges_of(Session& s, std::span<const Tensor* const> tensors) {
  Edges edges;
  edges.reserve(tensors.size());
  for (const Tensor* tensor : tensors)
    edges.push_back(tensor->defined() ? gradient_edge_if_any(s, *tensor) : Edge{});
  return edges;
}

Edge gradient_edge(Session& s, const Tensor& tensor) {
  if (tensor.grad_fn()) return {tensor.grad_fn(), tensor->output_number};
  return {grad_accumulator(s, tensor), 0};
}

Edge gradient_edge_if_any(Session& s, const Tensor& tensor) {
  return tensor.requires_grad() ? gradient_edge(s, tensor) : Edge{};
}

void set_history(Session& s, const Tensor& output, const NodeRef& node) {
  if (!node) return;
  output->output_number = node->add_input({.dtype = output.shown_dtype(),
                                           .device = output.device(),
                                           .stream = s.stream,
                                           .sizes = output.sizes()});
  output->grad_fn = node;
}

Tensors wrap_function_outputs(Session& s, const Tensors& inputs, Tensors outputs,
                              const NodeRef& node) {
  for (Tensor& output : outputs) {
    if (!output.defined()) {
      if (node) node->add_input({.device = Device::cpu});  // Each output has its number, None too.
      continue;
    }
    const bool is_input = std::any_of(inputs.begin(), inputs.end(),
                                      [&](const Tensor& input) { return input.is(output); });
    if (is_input) {
      const NoGrad no_grad(s);
      output = view_as(s, output, output);
    }
    if (output.is_floating_point() || output->float8())
      set_history(s, output, node);
    else if (node)
      node->add_input({.device = Device::cpu});
  }
  return outputs;
}

}  // namespace shardscope::eager

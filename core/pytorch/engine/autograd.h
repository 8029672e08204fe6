// Autograd's graph: nodes, what they save, and the edges between them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/pytorch/engine/few.h"
#include "core/pytorch/engine/reference.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

using Tensors = std::vector<Tensor>;

class Node;
using NodeRef = Ref<Node>;

/// Where a gradient goes next: `input_number` of `node`.
struct Edge {
  NodeRef node;
  std::uint32_t input_number = 0;
  bool valid() const { return static_cast<bool>(node); }
};
using Edges = Few<Edge, 3>;

/// What a node expects of its gradient: the tensor that it made in forward.
struct InputMetadata {
  Dtype dtype = Dtype::float32;
  Device device = Device::cuda;
  StreamId stream = default_stream;  ///< current when the tensor was made
  Dims sizes;
  bool any_dtype = false;  ///< gradients stay in the dtype that they come in
};

/// A tensor kept for backward; torch/csrc/autograd/saved_variable.cpp.
class SavedTensor {
 public:
  SavedTensor(Session& s, std::string_view field, const Tensor& tensor, bool is_output);

  std::string_view field() const { return field_; }
  std::int32_t index() const { return index_; }  ///< in a list of tensors; -1: not of a list
  void set_index(std::int32_t index) { index_ = index; }
  /// The tensor as the node's formula sees it; unpack hooks run.
  Tensor unpack(Session& s, const NodeRef& owner) const;
  /// What is held, without running hooks or giving it its grad_fn; None if packed or released.
  const Tensor& held() const { return data_; }
  bool is_output() const { return is_output_; }
  void release();

 private:
  /// What hooks made of it.
  struct Packed {
    std::shared_ptr<void> value;
    std::shared_ptr<SavedTensorHooks> hooks;
    Edge origin;  ///< of an input: its grad_fn
  };

  std::string_view field_;
  std::int32_t index_ = -1;
  bool is_output_;
  bool detached_ = false;  ///< an output: held without its grad_fn
  bool was_leaf_ = false;
  bool requires_grad_ = false;
  std::uint32_t output_number_ = 0;
  Tensor data_;
  std::unique_ptr<Packed> packed_;
};

/// Node.register_prehook: may change the gradients that come in.
using NodePreHook = std::function<void(Session&, Tensors& gradients)>;
/// Node.register_hook: after it ran; may change what it returns.
using NodePostHook = std::function<void(Session&, Tensors& results, const Tensors& gradients)>;

struct NodeHooks {
  struct OfTensor {
    std::uint64_t id = 0;
    std::uint32_t input_number = 0;
    TensorHook hook;
  };
  std::vector<OfTensor> tensor_pre_hooks;
  std::vector<std::pair<std::uint64_t, NodePreHook>> pre_hooks;
  std::vector<std::pair<std::uint64_t, NodePostHook>> post_hooks;
  std::vector<std::uint32_t> retain_grad;  ///< input numbers whose tensors keep .grad
};

/// A step of backward: torch::autograd::Node.
class Node : public Counted {
 public:
  /// Runs before everything else that is ready.
  static constexpr std::uint64_t accumulate_sequence = std::numeric_limits<std::uint64_t>::max();

  Node(Session& s, std::string_view name, std::uint64_t sequence);
  virtual ~Node();

  std::string_view name() const { return name_; }  ///< "MulBackward0"
  std::uint64_t sequence_number() const { return sequence_; }
  /// Module in whose forward it was made; null: none.
  const Module* module() const { return module_; }
  bool is_accumulate() const { return sequence_ == accumulate_sequence; }

  const Edges& next_edges() const { return next_; }
  void set_next_edges(Edges edges) { next_ = std::move(edges); }
  /// Whether the gradient of forward input `i` is wanted.
  bool needs(std::size_t i) const { return i < next_.size() && next_[i].valid(); }
  bool needs_any() const;

  using Inputs = Few<InputMetadata, 1>;
  const Inputs& inputs() const { return inputs_; }
  std::uint32_t add_input(const InputMetadata& metadata);
  InputMetadata& input(std::size_t number) { return inputs_[number]; }
  StreamId stream() const;  ///< of its first input

  /// Keeps an input of the forward operator; call it before the operator is dispatched.
  void save(Session& s, std::string_view field, const Tensor& tensor);
  /// As one of a list: its field is "indices[0]".
  void save_listed(Session& s, std::string_view field, std::int32_t index, const Tensor& tensor);
  /// Keeps an output; call it after set_history.
  void save_output(Session& s, std::string_view field, const Tensor& tensor);
  void save_output_listed(Session& s, std::string_view field, std::int32_t index,
                          const Tensor& tensor);
  using Saved = Few<SavedTensor, 3>;
  const Saved& saved() const { return saved_; }
  /// By field; None if nothing was saved under it.
  Tensor saved(Session& s, std::string_view field);
  Tensor saved_listed(Session& s, std::string_view field, std::int32_t index);
  void release_saved();

  NodeHooks& hooks();
  const NodeHooks* hooks_if_any() const { return hooks_.get(); }
  HookHandle register_prehook(Session& s, NodePreHook hook);
  HookHandle register_hook(Session& s, NodePostHook hook);
  void remove_hook(HookHandle handle);

  /// The gradients of the forward inputs; None where none is wanted.
  virtual Tensors apply(Session& s, Tensors&& gradients) = 0;

 private:
  friend class Ref<Node>;
  friend class Engine;
  void release_last();

  std::string_view name_;
  std::uint64_t sequence_;
  const Module* module_;
  Edges next_;
  Inputs inputs_;
  Saved saved_;
  std::unique_ptr<NodeHooks> hooks_;
  // The engine's notes while a backward runs through here.
  std::uint64_t task_ = 0;
  std::uint32_t slot_ = 0;
};

/// A node whose formula is `F(Session&, Node&, Tensors& gradients) -> Tensors`. The formula keeps
/// no tensors: what it needs is saved in the node.
template <class F>
class FormulaNode final : public Node {
 public:
  FormulaNode(Session& s, std::string_view name, F formula)
      : Node(s, name, s.take_sequence_number()), formula_(std::move(formula)) {}
  Tensors apply(Session& s, Tensors&& gradients) override { return formula_(s, *this, gradients); }

 private:
  F formula_;
};

using TensorPointers = std::initializer_list<const Tensor*>;

/// Whether an operator on these makes a node: grad mode is on and one requires grad.
bool any_requires_grad(const Session& s, std::span<const Tensor* const> tensors);
/// torch::autograd::collect_next_edges.
Edges next_edges_of(Session& s, std::span<const Tensor* const> tensors);
/// The node that a gradient of this tensor goes to; of a leaf its AccumulateGrad, made on demand.
/// torch::autograd::impl::gradient_edge.
Edge gradient_edge(Session& s, const Tensor& tensor);
/// None where the tensor requires no grad.
Edge gradient_edge_if_any(Session& s, const Tensor& tensor);

/// The node of a differentiable operator, or none if no input requires grad. Made before the
/// operator is dispatched; `inputs` (None allowed) are its differentiable ones, in order.
template <class F>
NodeRef make_node(Session& s, std::string_view name, std::span<const Tensor* const> inputs,
                  F formula) {
  if (!any_requires_grad(s, inputs)) return {};
  NodeRef node(new FormulaNode<F>(s, name, std::move(formula)));
  node->set_next_edges(next_edges_of(s, inputs));
  s.tell([&](Observer& o) { o.on_node_created(s, *node); });
  return node;
}
template <class F>
NodeRef make_node(Session& s, std::string_view name, TensorPointers inputs, F formula) {
  return make_node(s, name, std::span(inputs.begin(), inputs.size()), std::move(formula));
}

/// Makes `output` the next output of `node`; nothing if there is no node.
void set_history(Session& s, const Tensor& output, const NodeRef& node);

/// torch.autograd.Function.apply: `forward` runs without grad and returns the outputs, `backward`
/// is the formula. An input among the outputs comes back as a view of itself.
template <class Forward, class Backward>
Tensors apply_function(Session& s, std::string_view name, const Tensors& inputs, Forward forward,
                       Backward backward);
/// The part of apply_function after the forward: torch/csrc/autograd/custom_function.cpp,
/// _wrap_outputs.
Tensors wrap_function_outputs(Session& s, const Tensors& inputs, Tensors outputs,
                              const NodeRef& node);

template <class Forward, class Backward>
Tensors apply_function(Session& s, std::string_view name, const Tensors& inputs, Forward forward,
                       Backward backward) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  const NodeRef node =
      make_node(s, name, std::span<const Tensor* const>(pointers), std::move(backward));
  Tensors outputs;
  {
    const NoGrad no_grad(s);
    outputs = forward(s, node);
  }
  return wrap_function_outputs(s, inputs, std::move(outputs), node);
}

}  // namespace shardscope::eager

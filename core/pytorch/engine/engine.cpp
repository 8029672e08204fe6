#include "core/pytorch/engine/engine.h"

#include <algorithm>

#include "core/pytorch/engine/accumulate_grad.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"

namespace shardscope::eager {
namespace {

/// What waits at a node while a backward runs: torch's InputBuffer and its count of dependencies.
struct NodeState {
  NodeRef node;
  std::uint64_t task_before = 0;  ///< of the backward around this one
  std::uint32_t slot_before = 0;
  std::int32_t dependencies = 0;
  bool runs = true;       ///< exec_info_: needed_
  bool captured = false;  ///< exec_info_: captures_
  Tensors buffer;
  bool takes_gradients() const { return runs || captured; }
};

/// CompareNodeTaskTime: the node made last goes first.
bool runs_later(const NodeRef& a, const NodeRef& b) {
  return a->sequence_number() < b->sequence_number();
}

}  // namespace

struct GraphTask {
  std::uint64_t id = 0;
  bool keep_graph = false;
  std::vector<Edge> inputs;  ///< of torch.autograd.grad; none: all that is reached runs
  Tensors captured;          ///< one for each of them
  std::vector<NodeState> states;
  std::vector<NodeRef> ready;  ///< a heap
  std::vector<std::function<void(Session&)>> callbacks;
  std::vector<StreamId> leaf_streams;

  void note_leaf_stream(StreamId stream) {
    if (std::find(leaf_streams.begin(), leaf_streams.end(), stream) == leaf_streams.end())
      leaf_streams.push_back(stream);
  }
};

Engine::Engine(Session& s) : s_(s) {}
Engine::~Engine() = default;

std::int64_t Engine::graph_task_id() const {
  return tasks_.empty() ? -1 : static_cast<std::int64_t>(tasks_.back()->id) - 1;
}

bool Engine::will_execute(const Node& node) const {
  return !tasks_.empty() && node.task_ == tasks_.back()->id;
}

void Engine::queue_callback(std::function<void(Session&)> callback) {
  tasks_.back()->callbacks.push_back(std::move(callback));
}

namespace {

/// at::caching::adjusted_use_count and the rest of can_accumulate_inplace of
/// torch/csrc/autograd/input_buffer.cpp. A view keeps its base, and so a second reference to the
/// storage.
bool may_add_in_place(const Session& s, const Tensor& tensor) {
  return !s.settings.watched && !s.grad_enabled && !tensor->is_view && tensor->references() == 1 &&
         tensor.storage()->references() == 1 && is_dense(tensor.sizes(), tensor.strides());
}

/// Whether what a node takes are gradients of DTensors, which no sum changes: tensor subclasses.
bool takes_distributed(const Node& node) { return node.name() == "RedistributeBackward"; }

/// InputBuffer::accumulate.
void add_to(Session& s, Tensor& place, Tensor gradient, bool never_in_place = false) {
  if (!place.defined()) {
    place = std::move(gradient);
    return;
  }
  if (!never_in_place && may_add_in_place(s, place))
    add_(s, place, gradient);
  else
    place = add(s, place, gradient);
}

/// torch::autograd::validate_outputs: a gradient takes the shape and dtype of what it is for.
void make_valid(Session& s, const Edges& edges, Tensors& gradients) {
  for (std::size_t i = 0; i < gradients.size() && i < edges.size(); ++i) {
    if (!edges[i].valid() || !gradients[i].defined()) continue;
    const InputMetadata& expected = edges[i].node->inputs()[edges[i].input_number];
    if (!(gradients[i].sizes() == expected.sizes))
      gradients[i] = sum_to(s, std::move(gradients[i]), expected.sizes);
    if (!expected.any_dtype && gradients[i].shown_dtype() != expected.dtype)
      gradients[i] = to(s, std::move(gradients[i]), expected.dtype);
  }
}

void call_hooks_of_tensor(Session& s, const TensorHook& hook, Tensor& gradient) {
  Tensor result = hook(s, gradient);
  if (result.defined()) gradient = std::move(result);
}

/// The hooks of tensors whose gradient this is; those of a leaf are kept with the leaf.
void run_tensor_hooks(Session& s, const Node& node, const Tensor* leaf, Tensors& gradients) {
  if (leaf) {
    if (!leaf->impl()->extras) return;
    const auto hooks = leaf->impl()->extras->hooks;
    for (const auto& [id, hook] : hooks)
      if (gradients[0].defined()) call_hooks_of_tensor(s, hook, gradients[0]);
    return;
  }
  if (!node.hooks_if_any()) return;
  const auto hooks = node.hooks_if_any()->tensor_pre_hooks;
  for (const NodeHooks::OfTensor& hook : hooks)
    if (gradients[hook.input_number].defined())
      call_hooks_of_tensor(s, hook.hook, gradients[hook.input_number]);
}

void run_pre_hooks(Session& s, const Node& node, Tensors& gradients) {
  if (!node.hooks_if_any()) return;
  const auto hooks = node.hooks_if_any()->pre_hooks;
  for (const auto& [id, hook] : hooks) hook(s, gradients);
}

void run_post_hooks(Session& s, const Node& node, Tensors& results, const Tensors& gradients) {
  const auto hooks = node.hooks_if_any()->post_hooks;
  for (const auto& [id, hook] : hooks) hook(s, results, gradients);
}

}  // namespace

std::uint32_t Engine::state_of(GraphTask& task, const NodeRef& node) {
  if (node->task_ == task.id) return node->slot_;
  const auto slot = static_cast<std::uint32_t>(task.states.size());
  task.states.push_back(
      {.node = node, .task_before = node->task_, .slot_before = node->slot_, .buffer = {}});
  node->task_ = task.id;
  node->slot_ = slot;
  return slot;
}

void Engine::count_dependencies(GraphTask& task, const std::vector<NodeRef>& roots) {
  std::vector<Node*> stack;
  const auto visit = [&](const NodeRef& node) {
    if (node->task_ == task.id) return;
    state_of(task, node);
    stack.push_back(node.get());
  };
  for (const NodeRef& root : roots) visit(root);
  while (!stack.empty()) {
    const Node& node = *stack.back();
    stack.pop_back();
    for (const Edge& edge : node.next_edges()) {
      if (!edge.valid()) continue;
      visit(edge.node);
      ++task.states[edge.node->slot_].dependencies;
    }
  }
}

void Engine::push_ready(GraphTask& task, const NodeRef& node) {
  task.ready.push_back(node);
  std::push_heap(task.ready.begin(), task.ready.end(), runs_later);
}

Tensors Engine::call(Node& node, Tensors& gradients) {
  const auto* accumulate = node.is_accumulate() ? static_cast<AccumulateGrad*>(&node) : nullptr;
  run_tensor_hooks(s_, node, accumulate ? &accumulate->leaf() : nullptr, gradients);
  run_pre_hooks(s_, node, gradients);
  const bool has_post_hooks = node.hooks_if_any() && !node.hooks_if_any()->post_hooks.empty();
  // Without hooks the gradients live until the results are valid, as in call_function.
  Tensors results =
      has_post_hooks ? node.apply(s_, Tensors(gradients)) : node.apply(s_, std::move(gradients));
  make_valid(s_, node.next_edges(), results);
  // NOLINTNEXTLINE(bugprone-use-after-move): with hooks they were copied
  if (has_post_hooks) run_post_hooks(s_, node, results, gradients);
  return results;
}

void Engine::pass_on(GraphTask& task, Node& node, Tensors& results) {
  for (std::size_t i = 0; i < results.size() && i < node.next_edges().size(); ++i) {
    const Edge& edge = node.next_edges()[i];
    if (!edge.valid()) continue;
    NodeState& state = task.states[edge.node->slot_];
    if (state.buffer.empty()) state.buffer.resize(edge.node->inputs().size());
    if (results[i].defined()) {
      const StreamId consumer = edge.node->stream();
      if (results[i].device() == Device::cuda && consumer != s_.stream) {
        s_.record_stream(results[i], consumer);
        s_.wait_event(consumer, s_.record_event(s_.stream));
      }
      const OnStream on(s_, consumer);
      add_to(s_, state.buffer[edge.input_number], std::move(results[i]),
             takes_distributed(*edge.node));
    }
    if (--state.dependencies == 0) push_ready(task, edge.node);
  }
}

/// The part of evaluate_function that instruments a run with exec_info_.
void Engine::capture(GraphTask& task, Node& node) {
  NodeState& state = task.states[node.slot_];
  if (!state.runs) {
    const auto* leaf = node.is_accumulate() ? &static_cast<AccumulateGrad&>(node).leaf() : nullptr;
    run_tensor_hooks(s_, node, leaf, state.buffer);
  }
  for (std::size_t i = 0; i < task.inputs.size(); ++i)
    if (task.inputs[i].node.get() == &node)
      task.captured[i] = state.buffer[task.inputs[i].input_number];
  task.note_leaf_stream(s_.stream);
}

/// task_should_compute_output: while a node runs, the edges on no way to what a gradient is asked
/// for are not there. Returns all of them.
Edges Engine::hide_unwanted_edges(const GraphTask& task, Node& node) {
  Edges all = node.next_;
  for (Edge& edge : node.next_)
    if (edge.valid() && !task.states[edge.node->slot_].takes_gradients()) edge.node.reset();
  return all;
}

void Engine::evaluate(GraphTask& task, const NodeRef& node) {
  const OnStream on(s_, node->stream());
  if (task.states[node->slot_].captured) capture(task, *node);
  if (!task.states[node->slot_].runs) {
    task.states[node->slot_].buffer.clear();
    return;
  }
  Edges all_edges;
  if (!task.inputs.empty()) all_edges = hide_unwanted_edges(task, *node);
  const Scoped<Node*> current(current_, node.get());
  s_.tell([&](Observer& o) { o.on_node_begin(s_, *node); });
  {
    Tensors gradients = std::move(task.states[node->slot_].buffer);
    Tensors results = call(*node, gradients);
    gradients.clear();
    if (!task.keep_graph) node->release_saved();
    if (results.empty()) task.note_leaf_stream(s_.stream);
    pass_on(task, *node, results);
  }
  if (!task.inputs.empty()) node->next_ = std::move(all_edges);
  s_.tell([&](Observer& o) { o.on_node_end(s_, *node); });
}

void Engine::run_task(GraphTask& task) {
  while (!task.ready.empty()) {
    std::pop_heap(task.ready.begin(), task.ready.end(), runs_later);
    const NodeRef node = std::move(task.ready.back());
    task.ready.pop_back();
    evaluate(task, node);
  }
}

/// Lets the nodes go back to the backward around this one.
void Engine::restore(GraphTask& task) {
  for (NodeState& state : task.states) {
    state.node->task_ = state.task_before;
    state.node->slot_ = state.slot_before;
  }
  tasks_.pop_back();
}

std::vector<NodeRef> Engine::seed(GraphTask& task, const std::vector<Edge>& outputs,
                                  const Tensors& gradients) {
  std::vector<NodeRef> roots;
  for (const Edge& output : outputs) roots.push_back(output.node);
  count_dependencies(task, roots);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    NodeState& state = task.states[roots[i]->slot_];
    if (state.buffer.empty()) state.buffer.resize(roots[i]->inputs().size());
    add_to(s_, state.buffer[outputs[i].input_number], gradients[i]);
  }
  return roots;
}

/// GraphTask::init_to_execute. A node runs if a gradient on its way on is asked for.
void Engine::note_needed(GraphTask& task, const std::vector<Edge>& inputs) {
  if (inputs.empty()) return;
  task.inputs = inputs;
  task.captured.resize(inputs.size());
  for (const Edge& input : inputs)
    if (input.node->task_ == task.id) task.states[input.node->slot_].captured = true;
  std::vector<NodeState*> order;  // what a node leads to was made before it
  for (NodeState& state : task.states) order.push_back(&state);
  std::ranges::stable_sort(order, [](const NodeState* a, const NodeState* b) {
    if (a->node->is_accumulate() != b->node->is_accumulate()) return a->node->is_accumulate();
    return runs_later(a->node, b->node);
  });
  for (NodeState* state : order)
    state->runs = std::ranges::any_of(state->node->next_edges(), [&](const Edge& edge) {
      return edge.valid() && task.states[edge.node->slot_].takes_gradients();
    });
}

void Engine::start(GraphTask& task, const std::vector<NodeRef>& roots) {
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const bool again = std::find(roots.begin(), roots.begin() + static_cast<std::ptrdiff_t>(i),
                                 roots[i]) != roots.begin() + static_cast<std::ptrdiff_t>(i);
    if (!again && task.states[roots[i]->slot_].dependencies == 0) push_ready(task, roots[i]);
  }
}

/// GraphTask::exec_post_processing: who called waits for the streams of the leaves, then the
/// callbacks run. One of them may queue another.
void Engine::finish(GraphTask& task) {
  for (const StreamId leaf : task.leaf_streams)
    if (leaf != s_.stream) s_.wait_event(s_.stream, s_.record_event(leaf));
  // NOLINTNEXTLINE(modernize-loop-convert): a callback may add others
  for (std::size_t i = 0; i < task.callbacks.size(); ++i) {
    const auto callback = std::move(task.callbacks[i]);
    callback(s_);
  }
}

void Engine::run(const Request& request) {
  std::vector<Edge> outputs;
  for (const Tensor& root : request.roots) outputs.push_back(gradient_edge(s_, root));
  grad({.outputs = std::move(outputs),
        .gradients = request.gradients,
        .inputs = {},
        .keep_graph = request.keep_graph});
}

Tensors Engine::grad(const GradRequest& request) {
  GraphTask task;
  task.id = next_task_++;
  task.keep_graph = request.keep_graph;
  const NoGrad no_grad(s_);
  tasks_.push_back(&task);
  struct Leave {
    Engine& engine;
    GraphTask& task;
    ~Leave() { engine.restore(task); }
  };
  const Leave leave{*this, task};
  const std::vector<NodeRef> roots = seed(task, request.outputs, request.gradients);
  note_needed(task, request.inputs);
  start(task, roots);
  run_task(task);
  finish(task);
  return std::move(task.captured);
}

void backward(Session& s, const Tensor& loss, const Tensor& gradient, bool keep_graph) {
  backward(s, {.roots = {loss}, .gradients = {gradient}, .keep_graph = keep_graph});
}

void backward(Session& s, Engine::Request request) {
  request.gradients.resize(request.roots.size());
  for (std::size_t i = 0; i < request.roots.size(); ++i)
    if (!request.gradients[i].defined()) request.gradients[i] = ones_like(s, request.roots[i]);
  s.engine().run(request);
}

}  // namespace shardscope::eager

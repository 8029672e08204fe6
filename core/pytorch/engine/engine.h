// Autograd's engine: runs the graph backward, in PyTorch's order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

struct GraphTask;

/// torch/csrc/autograd/engine.cpp, one device thread. Backward may be called from within backward
/// (reentrant checkpointing).
class Engine {
 public:
  explicit Engine(Session& s);
  ~Engine();

  struct Request {
    Tensors roots;
    Tensors gradients;  ///< of the roots; None: ones_like, which is an operator
    bool keep_graph = false;
  };
  void run(const Request& request);

  /// torch.autograd.grad: only nodes on a way to `inputs` run, and only gradients on such a way are
  /// computed.
  struct GradRequest {
    std::vector<Edge> outputs;  ///< GradientEdge, or the edges of tensors
    Tensors gradients;          ///< of the outputs
    std::vector<Edge> inputs;
    bool keep_graph = false;
  };
  /// Of each input; None where no way leads to it (allow_unused).
  Tensors grad(const GradRequest& request);

  bool running() const { return !tasks_.empty(); }
  /// torch._C._current_graph_task_id(); -1 outside of backward.
  std::int64_t graph_task_id() const;
  /// torch._C._current_autograd_node(); null outside of a node.
  Node* current_node() const { return current_; }
  /// torch._C._will_engine_execute_node.
  bool will_execute(const Node& node) const;
  /// Variable._execution_engine.queue_callback: called when the graph has run.
  void queue_callback(std::function<void(Session&)> callback);

 private:
  std::uint32_t state_of(GraphTask& task, const NodeRef& node);
  void count_dependencies(GraphTask& task, const std::vector<NodeRef>& roots);
  void push_ready(GraphTask& task, const NodeRef& node);
  Tensors call(Node& node, Tensors& gradients);
  void pass_on(GraphTask& task, Node& node, Tensors& results);
  void evaluate(GraphTask& task, const NodeRef& node);
  void run_task(GraphTask& task);
  std::vector<NodeRef> seed(GraphTask& task, const std::vector<Edge>& outputs,
                            const Tensors& gradients);
  void note_needed(GraphTask& task, const std::vector<Edge>& inputs);
  void capture(GraphTask& task, Node& node);
  Edges hide_unwanted_edges(const GraphTask& task, Node& node);
  void start(GraphTask& task, const std::vector<NodeRef>& roots);
  void finish(GraphTask& task);
  void restore(GraphTask& task);

  Session& s_;
  std::vector<GraphTask*> tasks_;  ///< innermost last
  std::uint64_t next_task_ = 1;
  Node* current_ = nullptr;
};

/// loss.backward(); `gradient` None: ones_like(loss).
void backward(Session& s, const Tensor& loss, const Tensor& gradient = {}, bool keep_graph = false);
/// torch.autograd.backward(tensors, gradients).
void backward(Session& s, Engine::Request request);
inline void queue_callback(Session& s, std::function<void(Session&)> callback) {
  s.engine().queue_callback(std::move(callback));
}

}  // namespace shardscope::eager

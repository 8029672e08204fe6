// A stage of torch.distributed.pipelining: forwards and backwards of its micro-batches, and what
// it keeps between them. Source: torch 2.15, pipelining/stage.py.
#pragma once

#include <functional>
#include <map>

#include "core/pytorch/parallel/stage_backward.h"
#include "core/pytorch/parallel/stage_module.h"

namespace shardscope::eager::parallel {

/// A point of a step, for who names phases: "forward", "backward", "backward_input",
/// "backward_weight", or "schedule" between them.
using StageWatcher = std::function<void(const char* what, int stage, int micro_batch)>;

struct StageSetup {
  int index = 0;
  int stages = 1;  ///< of the pipeline
  StageModule module;
  Dims activation;  ///< of a micro-batch, between stages
  Dtype dtype = Dtype::bfloat16;
  /// kwarg_mbs: what a micro-batch's forward is given beside the activation; empty: nothing.
  std::function<Tensors(int micro_batch)> more = {};
  bool returns_outputs = true;  ///< of the last stage
};

/// _PipelineStage.
class Stage {
 public:
  Stage(Session& s, StageSetup setup) : s_(s), setup_(std::move(setup)) {}

  int index() const { return setup_.index; }
  bool is_first() const { return setup_.index == 0; }
  bool is_last() const { return setup_.index + 1 == setup_.stages; }
  StageModule& module() { return setup_.module; }

  /// For an activation or the gradient of one.
  Tensor receive_buffer() const;

  /// The output, which is also kept for backward.
  Tensor forward(const Tensor& input, int micro_batch, const StageWatcher& watch);
  const Tensor& output_of(int micro_batch) const { return chunks_.at(micro_batch).output; }
  /// Lets the output go once it has been sent, where backward can begin without it.
  void release_output(int micro_batch);

  /// What a backward begins with: the loss on the last stage, else the gradient of the output.
  struct BackwardInput {
    Tensor loss;
    Tensor gradient;
    bool last = false;  ///< of the stage's in a step
  };
  /// The gradient of the stage's input; None on the first stage.
  Tensor backward(const BackwardInput& input, int micro_batch, const StageWatcher& watch);
  Tensor backward_for_input(const BackwardInput& input, int micro_batch, const StageWatcher& watch);
  void backward_for_weights(int micro_batch, bool last, const StageWatcher& watch);

  void clear_outputs() { outputs_.clear(); }
  /// The last stage's outputs of all micro-batches as one, which the caller lets go.
  void merge_outputs();

 private:
  /// _ForwardChunkState.
  struct Chunk {
    Tensor input, output;
    Edge edge;  ///< of the output
  };
  /// backward_state: what backward for weights takes up.
  struct Pending {
    Tensor input, output;
    Edge edge;
    Tensor gradient;
    WeightGroups groups;
  };

  void run_full(const Edge& edge, const Tensor& gradient, bool last);
  /// detach_(): an output that is kept lets go of its graph.
  void detach_kept_output(const Chunk& chunk) const;

  Session& s_;
  StageSetup setup_;
  std::map<int, Chunk> chunks_;
  std::map<int, Pending> pending_;
  Tensors outputs_;  ///< of the last stage, until the next step
};

}  // namespace shardscope::eager::parallel

// torch.distributed.pipelining with one stage a rank: GPipe and 1F1B. Source: torch 2.15,
// pipelining/schedules.py, stage.py, _p2p.py.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::parallel {

enum class PipelineSchedule : std::uint8_t { gpipe, one_forward_one_backward };

/// Pairs of stages that talk, in rounds of pairs that have no stage in common. Example: 4 stages:
/// {0,1},{2,3}, then {1,2}.
std::vector<std::vector<std::pair<int, int>>> connection_rounds(int stages);

/// What a stage runs, and what it is told.
struct StageSetup {
  PipelineSchedule schedule = PipelineSchedule::gpipe;
  int micro_batches = 1;
  const ProcessGroup* group = nullptr;  ///< of the stages; this rank's place is its stage
  Module* module = nullptr;
  Dims activation;  ///< of a micro-batch, between stages
  Dtype dtype = Dtype::bfloat16;
  std::function<Tensor(Session&, const Tensor& output, int micro_batch)> loss;
  std::function<void()> before_backward, after_step;
};

/// A point of a step, for who names phases: "forward", "backward", or "schedule" between them.
using StageWatcher = std::function<void(const char* what, int stage, int micro_batch)>;

/// _PipelineStage with its schedule.
class PipelineStage {
 public:
  PipelineStage(Session& s, StageSetup setup) : s_(s), setup_(std::move(setup)) {}

  /// schedule.step(): `micro_batches` are the first stage's inputs.
  void step(const Tensors& micro_batches, const StageWatcher& watch);

 private:
  /// _ForwardChunkState.
  struct Chunk {
    Tensor input, output;
    Tensor edge;  ///< the output's place in the graph, without its memory
  };
  /// P2POp of a tensor.
  struct Transfer {
    Tensor tensor;
    int peer = 0;
    bool sends = false;
  };
  /// Transfers that are posted at once, one ncclGroup (_batch_p2p).
  struct Batch {
    std::vector<Transfer> transfers;
    std::vector<WorkId> works;  ///< of those that are posted
  };

  int stage() const { return setup_.group->rank; }
  bool is_first() const { return stage() == 0; }
  bool is_last() const { return stage() + 1 == setup_.group->size(); }
  void connect();
  void exchange_number(int peer, bool sends);
  void reduce_number(std::string_view reduction);
  Tensor receive_buffer() const;
  void send(Batch& batch, const Tensor& tensor, int peer);
  void post(Batch& batch);
  void post_send(Batch& batch, const Tensor& tensor, int peer);
  /// Posts what is not posted yet, and waits for all.
  void wait(Batch& batch);
  Tensor receive_forward(Batch& batch);
  Tensor receive_backward(Batch& batch);
  void forward(const Tensor& input, int micro_batch, const StageWatcher& watch);
  void add_loss(int micro_batch);
  Tensor backward_one(const Tensor& gradient, int micro_batch, const StageWatcher& watch);
  void release_output(int micro_batch);
  void gpipe(const Tensors& micro_batches, const StageWatcher& watch);
  void one_forward_one_backward(const Tensors& micro_batches, const StageWatcher& watch);
  void merge_outputs();

  Session& s_;
  StageSetup setup_;
  bool connected_ = false;
  std::map<int, Chunk> chunks_;
  Tensors losses_;
  Tensors outputs_;  ///< of the last stage, until the next step
};

}  // namespace shardscope::eager::parallel

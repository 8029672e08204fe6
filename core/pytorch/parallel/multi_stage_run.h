// _PipelineScheduleRuntime: the schedules that are lowered to actions, with any number of stages a
// rank.
#pragma once

#include <map>
#include <set>

#include "core/pipeline/action.h"
#include "core/pytorch/parallel/pipeline.h"

namespace shardscope::eager::parallel {

class MultiStageRun final : public PipelineRun {
 public:
  MultiStageRun(Session& s, const PipelineSetup& setup, const ProcessGroup& group,
                std::vector<StageSetup> stages, StageLoss loss);
  void step(const Tensors& micro_batches, const StageWatcher& watch) override;

 private:
  /// A tensor of a stage's micro-batch.
  using Place = std::pair<int, int>;

  void perform(const Action& action, const Tensors& micro_batches, const StageWatcher& watch);
  void post_send(const Action& action);
  void post_receive(const Action& action);
  void end_send(const Action& wait);
  void unshard(int stage);
  void reshard(int stage);
  void wait_for_unshard(int stage);
  void start_reduction(int stage);
  void forward(const Action& action, const Tensors& micro_batches, const StageWatcher& watch);
  void backward(const Action& action, const StageWatcher& watch);
  /// What another rank sent, or a stage of this rank left; None where there is neither.
  Tensor take_received(ActionKind kind, const Action& action);
  bool is_here(int stage) const { return stages_.contains(stage); }
  int peer_of(const Action& transfer) const {
    return rank_of_stage_[static_cast<std::size_t>(peer_stage(transfer))];
  }

  Session& s_;
  PipelineSetup setup_;
  std::vector<int> rank_of_stage_;
  ActionOrder order_;  ///< of this rank
  PipelineChannel channel_;
  std::map<int, Stage> stages_;  ///< of this rank, by number
  StageLoss loss_;

  Tensors losses_;
  std::map<int, int> backwards_;  ///< by stage: that ended gradients of weights
  std::set<int> gathering_;       ///< stages whose parameters are under way
  std::set<int> finalized_;       ///< stages whose reduction let the parameters go
  std::map<Action, TransferBatch> sends_, receives_;
  std::map<Place, Tensor> local_inputs_, local_gradients_;  ///< set_local_fwd_input, ..._bwd_input
  std::map<Place, Tensor> input_gradients_;                 ///< bwd_cache
};

}  // namespace shardscope::eager::parallel

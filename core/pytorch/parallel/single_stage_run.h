// PipelineScheduleSingle: GPipe and 1F1B, with one stage a rank.
#pragma once

#include "core/pytorch/parallel/pipeline.h"

namespace shardscope::eager::parallel {

class SingleStageRun final : public PipelineRun {
 public:
  SingleStageRun(Session& s, const PipelineSetup& setup, const ProcessGroup& group,
                 StageSetup stage, StageLoss loss);
  void step(const Tensors& micro_batches, const StageWatcher& watch) override;

 private:
  Tensor receive_forward(TransferBatch& batch) const;
  Tensor receive_backward(TransferBatch& batch) const;
  void forward(const Tensor& input, int micro_batch, const StageWatcher& watch);
  void add_loss(int micro_batch);
  Tensor backward(const Tensor& gradient, int micro_batch, const StageWatcher& watch);
  void gpipe(const Tensors& micro_batches, const StageWatcher& watch);
  void one_forward_one_backward(const Tensors& micro_batches, const StageWatcher& watch);

  Session& s_;
  PipelineSetup setup_;
  PipelineChannel channel_;
  Stage stage_;
  StageLoss loss_;
  Tensors losses_;
};

}  // namespace shardscope::eager::parallel

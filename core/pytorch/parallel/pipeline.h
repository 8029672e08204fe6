// torch.distributed.pipelining: the schedules that a rank of a pipeline runs. Source: torch 2.15,
// pipelining/schedules.py.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/pipeline/setup.h"
#include "core/pytorch/parallel/pipeline_channel.h"
#include "core/pytorch/parallel/stage.h"

namespace shardscope::eager::parallel {

/// Of the last stage's output.
using StageLoss = std::function<Tensor(Session&, const Tensor& output, int micro_batch)>;

/// The stages of a rank with their schedule.
class PipelineRun {
 public:
  virtual ~PipelineRun() = default;
  /// schedule.step(): `micro_batches` are the first stage's inputs.
  virtual void step(const Tensors& micro_batches, const StageWatcher& watch) = 0;
};

/// `group` is of the pipeline's ranks, `stages` are this rank's, in the order of their numbers.
/// Throws Refusal where PyTorch's constructor refuses the setup.
std::unique_ptr<PipelineRun> make_pipeline_run(Session& s, const PipelineSetup& setup,
                                               const ProcessGroup& group,
                                               std::vector<StageSetup> stages, StageLoss loss);

}  // namespace shardscope::eager::parallel

#include "core/pytorch/parallel/pipeline.h"

#include <utility>

#include "core/pytorch/parallel/multi_stage_run.h"
#include "core/pytorch/parallel/single_stage_run.h"

namespace shardscope::eager::parallel {

std::unique_ptr<PipelineRun> make_pipeline_run(Session& s, const PipelineSetup& setup,
                                               const ProcessGroup& group,
                                               std::vector<StageSetup> stages, StageLoss loss) {
  check_counts(setup);
  if (has_single_stage(setup.kind))
    return std::make_unique<SingleStageRun>(s, setup, group, std::move(stages.front()),
                                            std::move(loss));
  return std::make_unique<MultiStageRun>(s, setup, group, std::move(stages), std::move(loss));
}

}  // namespace shardscope::eager::parallel

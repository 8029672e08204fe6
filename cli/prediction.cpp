#include "cli/prediction.h"

#include <string>
#include <utility>
#include <vector>

#include "core/format/atomic_file.h"
#include "core/native/pipeline_stages.h"
#include "sim/prediction/pipeline_prediction.h"
#include "traces/chrome_writer.h"
#include "traces/predicted_buffers.h"

namespace shardscope {

namespace {

/// Which stages and how many layers each rank of the pipeline has.
PredictedPipeline pipeline_of(const NativeScenario& scenario) {
  const PipelineChoice& choice = scenario.job.pipeline;
  const PipelineSetup setup =
      pipeline_setup(scenario.strategy, choice, scenario.workload.micro_batches);
  const std::vector<int> blocks =
      blocks_of_stages(scenario.model, choice, setup.stages(), "--pipeline-stages");
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  const auto ranks = static_cast<std::size_t>(setup.ranks);
  PredictedPipeline pipeline{.schedule = std::string(name_of(setup.kind)),
                             .stages = std::vector<std::vector<int>>(ranks),
                             .layers = std::vector<int>(ranks, 0)};
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const auto rank = static_cast<std::size_t>(rank_of_stage[stage]);
    pipeline.stages[rank].push_back(static_cast<int>(stage));
    pipeline.layers[rank] += blocks[stage];
  }
  return pipeline;
}

/// The scenario's rank and its peers in the other stages.
Prediction predict_stages(const NativeScenario& scenario, const HardwareProfile& profile) {
  const Mesh& mesh = scenario.strategy.mesh;
  NativeScenario of_stage = scenario;
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < mesh.pipeline; ++stage) {
    of_stage.rank = data_parallel_rank(mesh, scenario.rank) + stage * mesh.replicate * mesh.shard;
    schedules.push_back(
        schedule_of(of_stage, {.kind = profile.device, .threads = profile.threads_per_rank}));
  }
  std::vector<Prediction> predictions =
      predict_pipeline(std::move(schedules), pipeline_of(scenario), profile);
  return std::move(predictions[static_cast<std::size_t>(pipeline_rank(mesh, scenario.rank))]);
}

}  // namespace

Prediction predict(const NativeScenario& scenario, const HardwareProfile& profile) {
  if (scenario.strategy.mesh.pipeline > 1) return predict_stages(scenario, profile);
  Schedule schedule =
      schedule_of(scenario, {.kind = profile.device, .threads = profile.threads_per_rank});
  const PredictedRun run = native_run(schedule);
  return predict(std::move(schedule), run, profile);
}

void write_prediction(const Prediction& prediction, std::string_view verb,
                      const RunFolder& folder) {
  create_folder(folder.predicted_summary().parent_path());
  write_chrome_trace(prediction.trace, folder.predicted_trace());
  write_buffers(prediction.schedule, folder.predicted_buffers());
  write_summary(prediction.summary, verb, folder.predicted_summary());
}

}  // namespace shardscope

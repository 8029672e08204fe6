#include "cli/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/native/pipeline_stages.h"
#include "sim/engine/simulate_together.h"
#include "sim/planner/pipeline_trial.h"
#include "sim/prediction/stage_balance.h"
#include "traces/chrome_writer.h"
#include "traces/predicted_buffers.h"

namespace shardscope {

namespace {

DeviceKind kind_of(const HardwareProfile& profile) {
  return {.kind = profile.device, .threads = profile.threads_per_rank};
}

/// The step of all stages together, and what each rank computes in it.
PipelineCosts times_of(const std::vector<Schedule>& schedules, const HardwareProfile& profile) {
  PipelineCosts costs;
  for (const Simulation& one : simulate_together(schedules, profile)) {
    costs.whole = std::max(costs.whole, one.accounting.span.seconds());
    costs.ranks.push_back(one.accounting.compute.seconds());
  }
  return costs;
}

PipelineCosts arenas_of(const std::vector<Schedule>& schedules) {
  PipelineCosts costs;
  for (const Schedule& schedule : schedules)
    costs.ranks.push_back(static_cast<double>(arena_layout(schedule).size.count));
  return costs;
}

/// Those of an earlier prediction, which may have had more stages.
void remove_stage_traces(const std::filesystem::path& predicted) {
  std::error_code ignored;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(predicted, ignored))
    if (entry.path().filename().string().starts_with("trace.stage")) found.push_back(entry.path());
  for (const std::filesystem::path& path : found) std::filesystem::remove(path, ignored);
}

}  // namespace

void deal_out_layers(NativeScenario& scenario, const HardwareProfile* profile) {
  PipelineChoice& choice = scenario.job.pipeline;
  const bool asked = choice.layers.empty() && needs_prediction(choice.balance);
  if (!asked || scenario.strategy.mesh.pipeline == 1) return;
  if (choice.balance == StageBalance::time && profile == nullptr) {
    throw Error({.where = "pipeline.stages",
                 .what = "dealing layers out by time takes the figures of a machine",
                 .way_out = "measure this one with `shardscope calibrate`, give --cluster, or give "
                            "layers, work, memory or numbers"});
  }
  const PipelineSetup setup =
      pipeline_setup(scenario.strategy, choice, scenario.workload.micro_batches);
  PipelineChoice by_work = choice;
  by_work.balance = StageBalance::work;
  const DeviceKind device =
      profile != nullptr ? kind_of(*profile)
                         : DeviceKind{.kind = scenario.job.device == "cuda" ? "cuda" : "cpu"};
  NativeScenario tried = scenario;
  const auto costs = [&](const std::vector<int>& layers) {
    tried.job.pipeline.layers = layers;
    const std::vector<Schedule> schedules = schedules_of_stages(tried, device);
    return choice.balance == StageBalance::time ? times_of(schedules, *profile)
                                                : arenas_of(schedules);
  };
  choice.layers = balanced_stages(
      blocks_of_stages(scenario.model, by_work, setup.stages(), "--pipeline-stages"),
      rank_of_stages(setup), costs);
  scenario.assumed.push_back(fmt::format("layers of stages by predicted {}: {}",
                                         name_of(choice.balance), text_of_stages(choice)));
}

std::vector<Prediction> predict_stages(const NativeScenario& scenario,
                                       const HardwareProfile& profile) {
  if (scenario.strategy.mesh.pipeline > 1)
    return predict_pipeline(schedules_of_stages(scenario, kind_of(profile)),
                            planner::predicted_pipeline(native_training(scenario)), profile);
  Schedule schedule = schedule_of(scenario, kind_of(profile));
  const PredictedRun run = native_run(schedule);
  std::vector<Prediction> predictions;
  predictions.push_back(predict(std::move(schedule), run, profile));
  return predictions;
}

std::size_t own_stage(const NativeScenario& scenario) {
  const Mesh& mesh = scenario.strategy.mesh;
  return mesh.pipeline > 1 ? static_cast<std::size_t>(pipeline_rank(mesh, scenario.rank)) : 0;
}

Prediction predict(const NativeScenario& scenario, const HardwareProfile& profile) {
  return std::move(predict_stages(scenario, profile)[own_stage(scenario)]);
}

void write_stages(const std::vector<Prediction>& stages, std::size_t own, const RunFolder& folder) {
  const std::filesystem::path predicted = folder.predicted_summary().parent_path();
  create_folder(predicted);
  remove_stage_traces(predicted);
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    if (stage != own)
      write_chrome_trace(stages[stage].trace,
                         folder.predicted_stage_trace(static_cast<int>(stage)));
}

void write_prediction(const Prediction& prediction, std::string_view verb,
                      const RunFolder& folder) {
  create_folder(folder.predicted_summary().parent_path());
  write_chrome_trace(prediction.trace, folder.predicted_trace());
  write_buffers(prediction.schedule, folder.predicted_buffers());
  write_summary(prediction.summary, verb, folder.predicted_summary());
}

}  // namespace shardscope

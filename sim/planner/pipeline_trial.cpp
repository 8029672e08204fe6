#include "sim/planner/pipeline_trial.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/native/native_schedule.h"
#include "core/native/pipeline_stages.h"
#include "sim/engine/simulate_together.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/prediction/outside_memory.h"

namespace shardscope::planner {
namespace {

std::vector<Bytes> arenas_of(const std::vector<Schedule>& schedules) {
  std::vector<Bytes> arenas;
  for (const Schedule& schedule : schedules) arenas.push_back(arena_layout(schedule).size);
  return arenas;
}

/// Of the stage with most; packing an arena takes longer than playing its schedule.
Bytes highest_live(const std::vector<Schedule>& schedules) {
  Bytes highest;
  for (const Schedule& schedule : schedules)
    for (const CategoryBytes& live : live_bytes(schedule))
      highest = std::max(highest, live.total());
  return highest;
}

std::size_t largest(const std::vector<Bytes>& bytes) {
  return static_cast<std::size_t>(std::ranges::max_element(bytes) - bytes.begin());
}

}  // namespace

PredictedPipeline predicted_pipeline(const NativeTraining& training) {
  const PipelineChoice& choice = training.pipeline;
  const PipelineSetup setup =
      pipeline_setup(training.strategy, choice, training.workload.micro_batches);
  const std::vector<int> blocks =
      blocks_of_stages(training.model, choice, setup.stages(), "--pipeline-stages");
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

std::vector<Schedule> schedules_of_stages(const Choice& choice, const TrialInputs& inputs) {
  return native_schedules_of_stages(native_training(choice, inputs.model, inputs.training), 0,
                                    inputs.native_target);
}

namespace {

bool is_native(const Choice& choice) { return choice.runtime == Runtime::native; }

/// The rank that needs most memory.
std::size_t neediest(const std::vector<Prediction>& ranks) {
  const auto most = std::ranges::max_element(ranks, {}, [](const Prediction& one) {
    return one.summary.memory.peak_reserved + one.summary.memory.outside;
  });
  return static_cast<std::size_t>(most - ranks.begin());
}

/// Its first step is not needed: the second is the one that repeats. The first rank that does not
/// fit ends it.
Trial try_torchtitan(const Choice& choice, const TrialInputs& inputs) {
  static constexpr std::array soon{"1", "steady"};
  const TorchtitanPipeline pipeline = torchtitan_pipeline(choice, inputs);
  const Bytes memory = inputs.profile.memory;
  std::vector<Schedule> schedules;
  Trial trial;
  for (int rank = 0; rank < choice.mesh.pipeline; ++rank) {
    const Schedule& schedule = schedules.emplace_back(schedule_of_rank(pipeline, rank, soon));
    const Bytes allocated = allocated_peak(schedule);
    const Bytes outside = outside_bytes(schedule, inputs.profile);
    if (allocated + outside <= trial.needed()) continue;
    trial.allocated = allocated;
    trial.outside = outside;
    trial.is_part = memory > Bytes{} && trial.needed() + inputs.margin > memory;
    if (trial.is_part) return trial;
  }
  trial.time.span = step_of_recorded_pipeline(schedules, inputs.profile);
  return trial;
}

FullSimulation simulate_torchtitan(const Choice& choice, const TrialInputs& inputs) {
  const std::vector<Prediction> ranks =
      predict_stages(torchtitan_pipeline(choice, inputs), inputs.profile, false);
  const Summary& most = ranks[neediest(ranks)].summary;
  const Bytes memory = inputs.profile.memory;
  const auto leaves_margin = [&](const Prediction& one) {
    const Bytes needed = one.summary.memory.peak_reserved + one.summary.memory.outside;
    return !one.summary.out_of_memory && (memory == Bytes{} || needed + inputs.margin <= memory);
  };
  return {.reserved = most.memory.peak_reserved,
          .outside = most.memory.outside,
          .fits = std::ranges::all_of(ranks, leaves_margin)};
}

ChoiceFigures figures_of_torchtitan(const Choice& choice, const TrialInputs& inputs) {
  StagesWithMoves played =
      predict_stages_with_moves(torchtitan_pipeline(choice, inputs), inputs.profile);
  ChoiceFigures figures{.summary = std::move(played.stages[neediest(played.stages)].summary)};
  if (!figures.summary.out_of_memory) figures.moves = played.moves;
  return figures;
}

}  // namespace

Trial try_pipeline(const Choice& choice, const TrialInputs& inputs) {
  if (!is_native(choice)) return try_torchtitan(choice, inputs);
  const std::vector<Schedule> schedules = schedules_of_stages(choice, inputs);
  const OperationMoments moments =
      play_together(schedules, costs_together(schedules, inputs.profile));
  return {.time = {.span = *std::ranges::max_element(moments.end)},
          .allocated = highest_live(schedules),
          .outside = {}};
}

FullSimulation simulate_pipeline(const Choice& choice, const TrialInputs& inputs) {
  if (!is_native(choice)) return simulate_torchtitan(choice, inputs);
  const std::vector<Bytes> arenas = arenas_of(schedules_of_stages(choice, inputs));
  const std::size_t rank = largest(arenas);
  const Bytes memory = inputs.profile.memory;
  return {.reserved = arenas[rank],
          .outside = {},
          .fits = memory == Bytes{} || arenas[rank] + inputs.margin <= memory};
}

std::vector<Prediction> predict_stages(const Choice& choice, const TrialInputs& inputs) {
  if (!is_native(choice))
    return predict_stages(torchtitan_pipeline(choice, inputs), inputs.profile);
  return predict_pipeline(
      schedules_of_stages(choice, inputs),
      predicted_pipeline(native_training(choice, inputs.model, inputs.training)), inputs.profile);
}

ChoiceFigures figures_of_pipeline(const Choice& choice, const TrialInputs& inputs) {
  if (!is_native(choice)) return figures_of_torchtitan(choice, inputs);
  std::vector<Schedule> schedules = schedules_of_stages(choice, inputs);
  const StepTimeMoves moves = step_time_moves(schedules, inputs.profile);
  std::vector<Prediction> ranks =
      predict_pipeline(std::move(schedules),
                       predicted_pipeline(native_training(choice, inputs.model, inputs.training)),
                       inputs.profile, moves);
  return {.summary = std::move(ranks[neediest(ranks)].summary), .moves = moves};
}

}  // namespace shardscope::planner

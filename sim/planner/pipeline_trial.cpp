#include "sim/planner/pipeline_trial.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/native/native_schedule.h"
#include "core/native/pipeline_stages.h"
#include "sim/engine/rehearse.h"
#include "sim/engine/simulate_together.h"
#include "sim/planner/estimate.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/planner/torchtitan_trial.h"
#include "sim/prediction/outside_memory.h"

namespace shardscope::planner {
namespace {

/// Of the stage with most; packing an arena takes longer than playing its schedule.
Bytes highest_live(const std::vector<Schedule>& schedules) {
  Bytes highest;
  for (const Schedule& schedule : schedules)
    for (const CategoryBytes& live : live_bytes(schedule))
      highest = std::max(highest, live.total());
  return highest;
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

ChoiceFigures played_figures(const Choice& choice, const TrialInputs& inputs,
                             const std::stop_token& stop) {
  StagesWithMoves played =
      predict_stages_with_moves(torchtitan_pipeline(choice, inputs), inputs.profile, stop);
  ChoiceFigures figures{.summary = std::move(played.stages[neediest(played.stages)].summary)};
  const auto fails = [](const Prediction& one) { return one.summary.out_of_memory.has_value(); };
  if (choice.torchtitan && std::ranges::any_of(played.stages, fails)) figures.summary.fits = false;
  if (!figures.summary.out_of_memory) figures.moves = played.moves;
  return figures;
}

/// What the last rank and the one that needs most with few micro-batches hold with all of them: the
/// allocator plays, and no clock.
FullSimulation rehearse_neediest(const Choice& choice, std::size_t of_few,
                                 const TrialInputs& inputs, const std::stop_token& stop) {
  const TorchtitanPipeline pipeline = torchtitan_pipeline(choice, inputs);
  const Bytes memory = inputs.profile.memory;
  FullSimulation result;
  for (const int rank : std::set{static_cast<int>(of_few), choice.mesh.pipeline - 1}) {
    const Schedule schedule = schedule_of_rank(pipeline, rank, {.stop = stop});
    const Bytes outside = outside_bytes(schedule, inputs.profile);
    AllocatorChoice allocator{.settings = inputs.allocator};
    if (memory > Bytes{}) allocator.memory = DeviceCapacity{.total = memory, .outside = outside};
    const Rehearsal rehearsal = rehearse(schedule, inputs.profile, allocator);
    if (rehearsal.out_of_memory) result.fits = false;
    if (rehearsal.reserved + outside <= result.reserved + result.outside) continue;
    result.reserved = rehearsal.reserved;
    result.outside = outside;
  }
  return result;
}

/// A step of all micro-batches that takes `span`, from one of few.
void restate(Summary& summary, Duration span, const Choice& choice, int few) {
  const double longer = span.seconds() / summary.step_time.seconds();
  const double more = static_cast<double>(choice.micro_batches) / few;
  const auto scale = [&](Duration& time) {
    time = Duration::from_seconds(time.seconds() * longer);
  };
  for (Duration* part :
       {&summary.step_time, &summary.step_time_low, &summary.step_time_high, &summary.time.span,
        &summary.time.compute, &summary.time.exposed_communication, &summary.time.exposed_copy,
        &summary.time.idle, &summary.time.communication, &summary.time.overlap})
    scale(*part);
  summary.tokens_per_s *= more / longer;
  summary.tokens_per_s_per_device *= more / longer;
  if (summary.mfu_share) *summary.mfu_share *= more / longer;
  if (!summary.steps.empty()) summary.steps.back().time = summary.time;
  if (!summary.pipeline) return;
  // The bubble is as long, whatever the number of micro-batches.
  summary.pipeline->micro_batches = choice.micro_batches;
  summary.pipeline->bubble_share /= longer;
}

/// Of many micro-batches: few are played with all ranks, the time is the trial's, and memory that
/// of the ranks that need most, with all of them.
ChoiceFigures figures_from_few(const Choice& choice, const FewMicroBatches& cut,
                               const TrialInputs& inputs, const std::stop_token& stop) {
  Choice few = choice;
  few.micro_batches = cut.few + cut.unit;
  const TorchtitanPipeline pipeline = torchtitan_pipeline(few, inputs);
  std::vector<Prediction> stages = predict_stages(pipeline, inputs.profile, false, stop);
  const std::size_t most = neediest(stages);
  ChoiceFigures figures{.summary = std::move(stages[most].summary)};
  Summary& summary = figures.summary;
  if (summary.out_of_memory || !summary.fits) return figures;
  const FullSimulation whole = rehearse_neediest(choice, most, inputs, stop);
  const Trial trial = try_out(choice, inputs, stop);
  MemorySummary& memory = summary.memory;
  memory.peak_reserved = std::max(memory.peak_reserved, whole.reserved);
  memory.peak_allocated = std::max(memory.peak_allocated, trial.allocated);
  memory.peak_active = std::max(memory.peak_active, memory.peak_allocated);
  summary.fits = whole.fits;
  if (!summary.fits) return figures;
  figures.moves = moves_of_stages(std::move(stages), inputs.profile);
  const StepTimeBand band = step_time_band(figures.moves);
  const double seconds = summary.step_time.seconds();
  summary.step_time_low = Duration::from_seconds(seconds * band.low_factor);
  summary.step_time_high = Duration::from_seconds(seconds * band.high_factor);
  restate(summary, trial.time.span, choice, few.micro_batches);
  return figures;
}

ChoiceFigures figures_of_torchtitan(const Choice& choice, const TrialInputs& inputs,
                                    const std::stop_token& stop) {
  if (!choice.torchtitan || inputs.findings == nullptr) return played_figures(choice, inputs, stop);
  const Bytes memory = inputs.profile.memory;
  if (auto known = inputs.findings->figures(choice, memory)) return std::move(*known);
  const FewMicroBatches cut = few_micro_batches(choice);
  const ChoiceFigures figures = cut.unit > 0 ? figures_from_few(choice, cut, inputs, stop)
                                             : played_figures(choice, inputs, stop);
  inputs.findings->keep(choice, memory, figures);
  return figures;
}

FullSimulation simulate_torchtitan(const Choice& choice, const TrialInputs& inputs,
                                   const std::stop_token& stop) {
  const Bytes memory = inputs.profile.memory;
  const auto leaves_margin = [&](const Summary& summary) {
    const Bytes needed = summary.memory.peak_reserved + summary.memory.outside;
    return !summary.out_of_memory && (memory == Bytes{} || needed + inputs.margin <= memory);
  };
  if (choice.torchtitan && inputs.findings != nullptr) {
    const Summary summary = figures_of_torchtitan(choice, inputs, stop).summary;
    return {.reserved = summary.memory.peak_reserved,
            .outside = summary.memory.outside,
            .fits = summary.fits && leaves_margin(summary)};
  }
  const std::vector<Prediction> ranks =
      predict_stages(torchtitan_pipeline(choice, inputs), inputs.profile, false, stop);
  const Summary& most = ranks[neediest(ranks)].summary;
  return {.reserved = most.memory.peak_reserved,
          .outside = most.memory.outside,
          .fits = std::ranges::all_of(
              ranks, [&](const Prediction& one) { return leaves_margin(one.summary); })};
}

}  // namespace

Trial try_pipeline(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop) {
  if (!is_native(choice)) return try_torchtitan(choice, inputs, stop);
  const std::vector<Schedule> schedules = schedules_of_stages(choice, inputs);
  const OperationMoments moments =
      play_together(schedules, costs_together(schedules, inputs.profile));
  return {.time = {.span = *std::ranges::max_element(moments.end)},
          .allocated = highest_live(schedules),
          .outside = {}};
}

FullSimulation simulate_pipeline(const Choice& choice, const TrialInputs& inputs,
                                 const std::stop_token& stop) {
  if (!is_native(choice)) return simulate_torchtitan(choice, inputs, stop);
  const Bytes arena = largest_arena(schedules_of_stages(choice, inputs));
  const Bytes memory = inputs.profile.memory;
  return {.reserved = arena,
          .outside = {},
          .fits = memory == Bytes{} || arena + inputs.margin <= memory};
}

bool pipeline_fits(const Choice& choice, const TrialInputs& inputs) {
  if (!is_native(choice)) return simulate_torchtitan(choice, inputs, {}).fits;
  const Bytes memory = inputs.profile.memory;
  return memory == Bytes{} ||
         arenas_fit(schedules_of_stages(choice, inputs), memory - inputs.margin);
}

std::vector<Prediction> predict_stages(const Choice& choice, const TrialInputs& inputs) {
  if (!is_native(choice))
    return predict_stages(torchtitan_pipeline(choice, inputs), inputs.profile);
  return predict_pipeline(
      schedules_of_stages(choice, inputs),
      predicted_pipeline(native_training(choice, inputs.model, inputs.training)), inputs.profile);
}

ChoiceFigures figures_of_pipeline(const Choice& choice, const TrialInputs& inputs,
                                  const std::stop_token& stop) {
  if (!is_native(choice)) return figures_of_torchtitan(choice, inputs, stop);
  std::vector<Schedule> schedules = schedules_of_stages(choice, inputs);
  const StepTimeMoves moves = step_time_moves(schedules, inputs.profile);
  std::vector<Prediction> ranks =
      predict_pipeline(std::move(schedules),
                       predicted_pipeline(native_training(choice, inputs.model, inputs.training)),
                       inputs.profile, moves);
  return {.summary = std::move(ranks[neediest(ranks)].summary), .moves = moves};
}

}  // namespace shardscope::planner

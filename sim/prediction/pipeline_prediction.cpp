#include "sim/prediction/pipeline_prediction.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/clock_options.h"
#include "sim/engine/ranks_together.h"
#include "sim/engine/simulate.h"
#include "sim/engine/simulate_together.h"
#include "sim/prediction/memory_allowances.h"
#include "sim/prediction/rank_prediction.h"
#include "sim/prediction/run_facts.h"

namespace shardscope {
namespace {

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

/// The end of the last operation of all where the costs of groups are multiplied.
ScaledStep scaled_together(std::span<const Schedule> schedules, const HardwareProfile& profile) {
  std::vector<CostGroup> groups;
  PresentGroups present;
  for (const Schedule& schedule : schedules)
    for (const Operation& op : schedule.operations) {
      groups.push_back(cost_group(schedule, op, profile));
      present.add(groups.back());
    }
  return where_moved(present, [schedules, costs = costs_together(schedules, profile),
                               groups](const GroupValues& factors) {
    const auto factor = [&](CostGroup group) { return factors[static_cast<std::size_t>(group)]; };
    StepCosts moved = costs;
    for (std::size_t i = 0; i < groups.size(); ++i)
      moved.times[i] = scaled(costs.times[i], factor(groups[i]));
    moved.clock = with_host_times(costs.clock, factor(CostGroup::host), factor(CostGroup::hooks));
    const OperationMoments moments = play_together(schedules, moved);
    return *std::ranges::max_element(moments.end);
  });
}

double share_of(Duration part, Duration whole) {
  return whole.ns > 0 ? part.seconds() / whole.seconds() : 0;
}

StageSummary stage_of(const Summary& summary, const PredictedPipeline& pipeline, std::size_t rank) {
  return {.rank = static_cast<int>(rank),
          .stages = pipeline.stages[rank],
          .layers = pipeline.layers[rank],
          .compute = summary.time.compute,
          .exposed_communication = summary.time.exposed_communication,
          .idle = summary.time.idle,
          .bubble_share = share_of(summary.time.idle, summary.time.span),
          .activations = summary.memory.maximum[MemoryCategory::activations],
          .peak = summary.memory.peak_allocated,
          .reserved = summary.memory.peak_reserved};
}

PipelineSummary pipeline_of(const std::vector<Prediction>& predictions,
                            const PredictedPipeline& pipeline) {
  PipelineSummary result{.schedule = pipeline.schedule};
  const Schedule& first = predictions.front().schedule;
  result.stages_per_rank = static_cast<int>(pipeline.stages.front().size());
  result.micro_batches = first.workload.micro_batches;
  for (std::size_t rank = 0; rank < predictions.size(); ++rank) {
    result.ranks.push_back(stage_of(predictions[rank].summary, pipeline, rank));
    result.bubble_share +=
        result.ranks.back().bubble_share / static_cast<double>(predictions.size());
  }
  return result;
}

void check(const RanksTogether& together) {
  if (!together) throw Error({.where = "simulation", .what = together.endless_wait});
}

std::vector<PeerArrivals> arrivals_of(std::span<const Schedule> schedules,
                                      const HardwareProfile& profile) {
  RanksTogether together = peer_arrivals(schedules, profile);
  check(together);
  return std::move(together.arrivals);
}

Duration longest_step(std::span<const Schedule> schedules, std::span<const StepCosts> costs) {
  const PlayedTogether played = play_ranks_together(schedules, costs);
  check(played.ranks);
  return std::ranges::max(played.last_steps);
}

/// The longest step of a rank where the costs of groups are multiplied.
ScaledStep scaled_longest(std::span<const Schedule> schedules, const HardwareProfile& profile) {
  std::vector<StepCosts> costs;
  std::vector<std::vector<CostGroup>> groups;
  PresentGroups present;
  for (const Schedule& schedule : schedules) {
    costs.push_back(costs_of(schedule, profile));
    std::vector<CostGroup>& own = groups.emplace_back();
    for (const Operation& op : schedule.operations) {
      own.push_back(cost_group(schedule, op, profile));
      present.add(own.back());
    }
  }
  return where_moved(present, [schedules, costs, groups](const GroupValues& factors) {
    const auto factor = [&](CostGroup group) { return factors[static_cast<std::size_t>(group)]; };
    std::vector<StepCosts> moved = costs;
    for (std::size_t rank = 0; rank < moved.size(); ++rank) {
      for (std::size_t i = 0; i < groups[rank].size(); ++i)
        moved[rank].times[i] = scaled(costs[rank].times[i], factor(groups[rank][i]));
      moved[rank].clock =
          with_host_times(costs[rank].clock, factor(CostGroup::host), factor(CostGroup::hooks));
    }
    return longest_step(schedules, moved);
  });
}

/// What all ranks have in common.
void tell_of_all(const PredictedPipeline& pipeline, std::vector<Prediction>& predictions) {
  const PipelineSummary summary = pipeline_of(predictions, pipeline);
  const bool fits =
      std::ranges::all_of(predictions, [](const Prediction& one) { return one.summary.fits; });
  for (Prediction& prediction : predictions) {
    prediction.summary.pipeline = summary;
    prediction.summary.fits = fits;
  }
}

}  // namespace

StepTimeMoves step_time_moves(std::span<const Schedule> schedules, const HardwareProfile& profile) {
  return step_time_moves(scaled_together(schedules, profile), spreads_of(profile));
}

std::vector<Prediction> predict_pipeline(std::vector<Schedule> schedules,
                                         const PredictedPipeline& pipeline,
                                         const HardwareProfile& profile) {
  const StepTimeMoves moves = step_time_moves(schedules, profile);
  return predict_pipeline(std::move(schedules), pipeline, profile, moves);
}

std::vector<Prediction> predict_pipeline(std::vector<Schedule> schedules,
                                         const PredictedPipeline& pipeline,
                                         const HardwareProfile& profile,
                                         const StepTimeMoves& moves) {
  std::vector<Simulation> simulations = simulate_together(schedules, profile);
  const StepTimeBand band = step_time_band(moves);
  std::vector<Prediction> predictions;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    const Schedule& schedule = schedules[rank];
    RunFacts facts = facts_of(schedule, native_run(schedule), profile);
    std::ranges::move(assumptions(schedule, profile), std::back_inserter(facts.assumed));
    const SimulatedStep& step = simulations[rank].steps.back();
    facts.steps = {{.label = step.label,
                    .window = step.window,
                    .memory = memory_of(schedule, step.memory, {})}};
    facts.arena = facts.steps.back().memory.arena = step.memory.peak_reserved;
    facts.allowances = memory_allowances(schedule, native_run(schedule), profile, facts.arena);
    facts.low_factor = band.low_factor;
    facts.high_factor = band.high_factor;
    Prediction& prediction = predictions.emplace_back();
    prediction.summary = summarize(simulations[rank].trace, facts);
    add_host_memory(schedule, profile, prediction.summary);
    prediction.trace = std::move(simulations[rank].trace);
  }
  for (std::size_t rank = 0; rank < schedules.size(); ++rank)
    predictions[rank].schedule = std::move(schedules[rank]);
  tell_of_all(pipeline, predictions);
  return predictions;
}

StepTimeMoves step_time_moves_of_recorded(std::span<const Schedule> schedules,
                                          const HardwareProfile& profile) {
  return step_time_moves(scaled_longest(schedules, profile), spreads_of(profile));
}

namespace {

/// Those that end sooner wait for the one that takes longest.
std::vector<Prediction> predict_ranks(std::vector<Schedule> schedules, const PredictedRun& run,
                                      const HardwareProfile& profile, StepOfAllRanks step) {
  std::vector<PeerArrivals> arrivals = arrivals_of(schedules, profile);
  std::vector<Prediction> predictions;
  const auto predicted = [&](Schedule schedule, std::size_t rank) {
    PredictedRun own = run;
    own.with_band = false;
    own.peers = arrivals[rank];
    return predict_rank(std::move(schedule), own, step, profile);
  };
  for (std::size_t rank = 0; rank < schedules.size(); ++rank)
    predictions.push_back(predicted(std::move(schedules[rank]), rank));
  for (const Prediction& one : predictions)
    step.least = std::max(step.least, one.summary.time.span);
  for (std::size_t rank = 0; rank < predictions.size(); ++rank)
    if (predictions[rank].summary.time.span < step.least)
      predictions[rank] = predicted(std::move(predictions[rank].schedule), rank);
  return predictions;
}

}  // namespace

std::vector<Prediction> predict_recorded_pipeline(std::vector<Schedule> schedules,
                                                  const PredictedRun& run,
                                                  const PredictedPipeline& pipeline,
                                                  const HardwareProfile& profile) {
  if (run.with_band) {
    const StepTimeMoves moves = step_time_moves_of_recorded(schedules, profile);
    return predict_recorded_pipeline(std::move(schedules), run, pipeline, profile, moves);
  }
  std::vector<Prediction> predictions = predict_ranks(std::move(schedules), run, profile, {});
  tell_of_all(pipeline, predictions);
  return predictions;
}

std::vector<Prediction> predict_recorded_pipeline(std::vector<Schedule> schedules,
                                                  const PredictedRun& run,
                                                  const PredictedPipeline& pipeline,
                                                  const HardwareProfile& profile,
                                                  const StepTimeMoves& moves) {
  std::vector<Prediction> predictions =
      predict_ranks(std::move(schedules), run, profile, {.band = step_time_band(moves)});
  tell_of_all(pipeline, predictions);
  return predictions;
}

Duration step_of_recorded_pipeline(std::span<const Schedule> schedules,
                                   const HardwareProfile& profile) {
  constexpr Bytes enough{std::int64_t{1} << 50};
  const std::vector<PeerArrivals> arrivals = arrivals_of(schedules, profile);
  Duration longest;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    const Simulation one = simulate(
        schedules[rank], profile,
        {.settings = {}, .memory = DeviceCapacity{.total = enough, .outside = {}}}, arrivals[rank]);
    longest = std::max(longest, one.accounting.span);
  }
  return longest;
}

}  // namespace shardscope

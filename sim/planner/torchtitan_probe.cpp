#include "sim/planner/torchtitan_probe.h"

#include <algorithm>
#include <array>
#include <functional>

#include "sim/engine/clock_options.h"
#include "sim/engine/program_player.h"
#include "sim/engine/timed_device.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
namespace {

using eager::parallel::ParallelSettings;
using eager::parallel::RecordedChunk;

constexpr int probed_ranks = ProbedStages::kinds;
/// Enough for a forward and a backward that come neither first nor last.
constexpr int probed_micro_batches = 6, probed_forward = 3, probed_backward = 1;

/// Stages of so many blocks each.
TorchtitanPipeline probed_pipeline(const Choice& choice, const TrialInputs& inputs, int blocks) {
  const ProbeKey key = probe_key(choice);
  Choice small = choice;
  small.mesh = {.pipeline = 2, .shard = key.shard};
  small.micro_batches = probed_micro_batches;
  small.pipeline = {.schedule = key.splits ? PipelineScheduleKind::interleaved_zero_bubble
                                           : PipelineScheduleKind::one_f_one_b};
  TorchtitanPipeline pipeline = torchtitan_pipeline(small, inputs);
  ParallelSettings& settings = pipeline.settings;
  pipeline.place.world = pipeline.place.world / settings.mesh.front().size * probed_ranks;
  settings.mesh.front().size = probed_ranks;
  settings.shape.layers = std::int64_t{probed_ranks} * blocks;
  settings.stage_layers.assign(probed_ranks, blocks);
  return pipeline;
}

StepCosts costs_without_transfers(const Schedule& schedule, const TrialInputs& inputs) {
  StepCosts costs{.times = operation_times(schedule, inputs.costs),
                  .uses = link_uses(schedule, inputs.costs),
                  .clock = clock_options(schedule, inputs.profile)};
  for (std::size_t i = 0; i < costs.times.size(); ++i) {
    const OperationKind kind = schedule.operations[i].kind;
    if (kind == OperationKind::send || kind == OperationKind::receive) costs.times[i] = {};
  }
  return costs;
}

/// When the kernels of each chunk have ended.
std::vector<Duration> ends_of(const std::vector<RecordedChunk>& chunks, const Schedule& schedule,
                              const TrialInputs& inputs) {
  const StepCosts costs = costs_without_transfers(schedule, inputs);
  TimedDevice device(schedule, costs);
  ProgramPlayer player({.schedule = schedule, .allocator = nullptr, .device = device});
  player.play_until(static_cast<std::uint32_t>(schedule.program.actions.size()));
  device.finish();
  std::vector<Duration> ends;
  for (const RecordedChunk& chunk : chunks) {
    Duration end = ends.empty() ? Duration{} : ends.back();
    for (std::uint32_t i = chunk.operations.begin; i < chunk.operations.end; ++i)
      if (schedule.operations[i].kind == OperationKind::compute)
        end = std::max(end, device.times().end[i]);
    ends.push_back(end);
  }
  return ends;
}

StageChunks stage_chunks(const std::vector<RecordedChunk>& chunks, const Schedule& schedule,
                         const TrialInputs& inputs) {
  const std::vector<Duration> ends = ends_of(chunks, schedule, inputs);
  LiveBytes live(schedule);
  StageChunks found;
  Bytes first_forward, first_backward;  // with what each of them leaves behind
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Action& action = chunks[i].action;
    const LiveChange passed = live.pass(chunks[i].actions);
    const bool forward = action.kind == ActionKind::forward;
    const bool ends_weights = ends_weight_gradient(action.kind);
    if (action.micro_batch == 0 && forward) first_forward = passed.change;
    if (action.micro_batch == 0 && ends_weights) first_backward = passed.change;
    if (action.micro_batch != (forward ? probed_forward : probed_backward)) continue;
    const Duration taken = ends[i] - ends[i - 1];
    if (forward) {
      found.time.forward = taken;
      found.forward = passed;
      found.by_first_forward = first_forward - passed.change;
    } else if (action.kind == ActionKind::backward_weight) {
      found.time.weight_backward = taken;
      found.weight_backward = passed;
    } else {
      found.time.input_backward = taken;
      found.input_backward = passed;
    }
    if (ends_weights) found.by_first_backward = first_backward - passed.change;
  }
  return found;
}

StageChunks probed_stage(const TorchtitanPipeline& pipeline, int rank, const TrialInputs& inputs,
                         const std::stop_token& stop) {
  static constexpr std::array once{"once"};
  std::vector<RecordedChunk> chunks;
  const Schedule schedule =
      schedule_of_rank(pipeline, rank, {.steps = once, .stop = stop, .chunks = &chunks});
  return stage_chunks(chunks, schedule, inputs);
}

/// Each number of the two.
template <class Combine>
StageChunks combined(const StageChunks& a, const StageChunks& b, const Combine& combine) {
  const auto time = [&](Duration ChunkTime::*part) {
    return Duration{combine((a.time.*part).ns, (b.time.*part).ns)};
  };
  const auto bytes = [&](Bytes x, Bytes y) { return Bytes{combine(x.count, y.count)}; };
  const auto live = [&](LiveChange StageChunks::*part) {
    return LiveChange{bytes((a.*part).change, (b.*part).change),
                      bytes((a.*part).most, (b.*part).most)};
  };
  return {.time = {time(&ChunkTime::forward), time(&ChunkTime::input_backward),
                   time(&ChunkTime::weight_backward)},
          .forward = live(&StageChunks::forward),
          .input_backward = live(&StageChunks::input_backward),
          .weight_backward = live(&StageChunks::weight_backward),
          .by_first_forward = bytes(a.by_first_forward, b.by_first_forward),
          .by_first_backward = bytes(a.by_first_backward, b.by_first_backward)};
}

}  // namespace

ProbeKey probe_key(const Choice& choice) {
  const bool reshards = zero_stage(choice.sharding) == 3 && choice.mesh.shard > 1;
  return {.plain = plain_key(choice),
          .precision = choice.precision,
          .shard = reshards ? choice.mesh.shard : std::min(choice.mesh.shard, 2),
          .reshards = reshards,
          .splits = splits_backward(choice.pipeline.schedule)};
}

ProbedStages ProbedStages::sparse(const ProbedStages& plain, const ProbedStages& checkpointed,
                                  int every) {
  const StageChunks& with = checkpointed.added_.front();
  const StageChunks& without = plain.added_.front();
  ProbedStages stages{plain.few_, plain.of_few_,
                      std::vector(static_cast<std::size_t>(every), without)};
  stages.added_.back() = with;
  for (int block = every; block <= stages.few_; block += every)
    for (StageChunks& stage : stages.of_few_)
      stage = combined(combined(stage, without, std::minus<std::int64_t>()), with,
                       std::plus<std::int64_t>());
  return stages;
}

StageChunks ProbedStages::of(Kind kind, int blocks) const {
  StageChunks stage = of_few_[static_cast<std::size_t>(kind)];
  for (int block = few_ + 1; block <= blocks; ++block)
    stage = combined(stage, added_by(block), std::plus<std::int64_t>());
  for (int block = few_; block > blocks; --block)
    stage = combined(stage, added_by(block), std::minus<std::int64_t>());
  return stage;
}

std::vector<StageChunks> ProbedStages::stages(const std::vector<int>& blocks) const {
  std::vector<StageChunks> result;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const Kind kind = stage == 0                   ? Kind::first
                      : stage + 1 == blocks.size() ? Kind::last
                                                   : Kind::middle;
    result.push_back(of(kind, blocks[stage]));
  }
  return result;
}

Bytes most_live(const ActionOrder& order, const std::vector<StageChunks>& stages) {
  struct Done {
    bool forward = false, backward = false;
  };
  std::vector<Done> done(stages.size());
  Bytes live, most;
  const auto pass = [&](const LiveChange& chunk) {
    most = std::max(most, live + chunk.most);
    live += chunk.change;
  };
  for (const ActionSlot& slot : order)
    for (const Action& action : slot.actions()) {
      const StageChunks& stage = stages[static_cast<std::size_t>(action.stage)];
      Done& before = done[static_cast<std::size_t>(action.stage)];
      if (action.kind == ActionKind::forward) {
        if (!std::exchange(before.forward, true)) live += stage.by_first_forward;
        pass(stage.forward);
      }
      if (is_input_backward(action.kind)) pass(stage.input_backward);
      if (!ends_weight_gradient(action.kind)) continue;
      if (!std::exchange(before.backward, true)) live += stage.by_first_backward;
      pass(stage.weight_backward);
    }
  return std::max(most, live);
}

ProbedStages probed_stages(const Choice& choice, const TrialInputs& inputs,
                           const std::stop_token& stop) {
  // Of checkpointing every:2 the second block is checkpointed, and the third is as the first.
  const int period = std::max(1, choice.checkpointing.every);
  // Where parameters are let go, so many blocks are whole at once.
  constexpr int whole_at_once = 3, middle = 1;
  const int few = probe_key(choice).reshards ? whole_at_once : 1;
  std::array<StageChunks, ProbedStages::kinds> of_few;
  const TorchtitanPipeline pipeline = probed_pipeline(choice, inputs, few);
  for (int rank = 0; rank < probed_ranks; ++rank)
    of_few[static_cast<std::size_t>(rank)] = probed_stage(pipeline, rank, inputs, stop);
  std::vector<StageChunks> added(static_cast<std::size_t>(period));
  StageChunks last = of_few[middle];
  for (int block = few + 1; block <= few + period; ++block) {
    const StageChunks more =
        probed_stage(probed_pipeline(choice, inputs, block), middle, inputs, stop);
    added[static_cast<std::size_t>((block - 1) % period)] =
        combined(more, last, std::minus<std::int64_t>());
    last = more;
  }
  return {few, of_few, std::move(added)};
}

}  // namespace shardscope::planner

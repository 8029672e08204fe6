#include "sim/planner/torchtitan_probe.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
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

ChunkTime chunk_time(const std::vector<RecordedChunk>& chunks, const Schedule& schedule,
                     const TrialInputs& inputs) {
  const std::vector<Duration> ends = ends_of(chunks, schedule, inputs);
  ChunkTime time;
  for (std::size_t i = 1; i < chunks.size(); ++i) {
    const Action& action = chunks[i].action;
    const Duration taken = ends[i] - ends[i - 1];
    const bool forward = action.kind == ActionKind::forward;
    if (action.micro_batch != (forward ? probed_forward : probed_backward)) continue;
    (forward                                        ? time.forward
     : action.kind == ActionKind::backward_weight ? time.weight_backward
                                                  : time.input_backward) = taken;
  }
  return time;
}

ChunkTime probed_chunk(const TorchtitanPipeline& pipeline, int rank, const TrialInputs& inputs,
                       const std::stop_token& stop) {
  static constexpr std::array once{"once"};
  std::vector<RecordedChunk> chunks;
  const Schedule schedule = schedule_of_rank(pipeline, rank, once, stop, &chunks);
  return chunk_time(chunks, schedule, inputs);
}

ChunkTime sum(const ChunkTime& a, const ChunkTime& b) {
  return {a.forward + b.forward, a.input_backward + b.input_backward,
          a.weight_backward + b.weight_backward};
}

ChunkTime difference(const ChunkTime& more, const ChunkTime& less) {
  return {more.forward - less.forward, more.input_backward - less.input_backward,
          more.weight_backward - less.weight_backward};
}

}  // namespace

ProbeKey probe_key(const Choice& choice) {
  const bool reshards = zero_stage(choice.sharding) == 3 && choice.mesh.shard > 1;
  return {.plain = plain_key(choice),
          .shard = reshards ? choice.mesh.shard : std::min(choice.mesh.shard, 2),
          .reshards = reshards,
          .splits = splits_backward(choice.pipeline.schedule)};
}

ChunkTime ProbedStages::chunk(Kind kind, int blocks) const {
  ChunkTime time = of_one_[static_cast<std::size_t>(kind)];
  for (int block = 1; block < blocks; ++block)
    time = sum(time, added_[static_cast<std::size_t>(block - 1) % added_.size()]);
  return time;
}

std::vector<ChunkTime> ProbedStages::chunks(const std::vector<int>& blocks) const {
  std::vector<ChunkTime> result;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const Kind kind = stage == 0                   ? Kind::first
                      : stage + 1 == blocks.size() ? Kind::last
                                                   : Kind::middle;
    result.push_back(chunk(kind, blocks[stage]));
  }
  return result;
}

ProbedStages probed_stages(const Choice& choice, const TrialInputs& inputs,
                           const std::stop_token& stop) {
  // Of checkpointing every:2 the second block is checkpointed, and the third is as the first.
  const int period = std::max(1, choice.checkpointing.every);
  std::array<ChunkTime, ProbedStages::kinds> of_one;
  const TorchtitanPipeline one = probed_pipeline(choice, inputs, 1);
  for (int rank = 0; rank < probed_ranks; ++rank)
    of_one[static_cast<std::size_t>(rank)] = probed_chunk(one, rank, inputs, stop);
  constexpr int middle = 1;
  std::vector<ChunkTime> added;
  ChunkTime last = of_one[middle];
  for (int blocks = 2; blocks <= period + 1; ++blocks) {
    const ChunkTime more =
        probed_chunk(probed_pipeline(choice, inputs, blocks), middle, inputs, stop);
    added.push_back(difference(more, last));
    last = more;
  }
  return {of_one, std::move(added)};
}

}  // namespace shardscope::planner

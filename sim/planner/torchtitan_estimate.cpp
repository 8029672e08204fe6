#include "sim/planner/torchtitan_estimate.h"

#include <algorithm>

#include "core/native/pipeline_stages.h"
#include "core/pipeline/program.h"
#include "sim/engine/pipeline_timeline.h"
#include "sim/planner/pipeline_bounds.h"

namespace shardscope::planner {
namespace {

/// Of an activation between two stages, as each of the ranks that share it sends its part.
Duration transfer_time(const Choice& choice, const TrialInputs& inputs) {
  const int ranks_of_stage = world_of(choice) / choice.mesh.pipeline;
  const std::int64_t elements =
      choice.batch * inputs.training.length * inputs.model.decoder->width / tensor_ranks(choice);
  const Dtype dtype = compute_dtype(choice.precision).value_or(parameter_dtype(choice.precision));
  return inputs.costs.collective_time(OperationKind::send, bytes_of(elements, dtype),
                                      {.name = {}, .ranks = Ranks::spaced(0, ranks_of_stage, 2)});
}

}  // namespace

Trial estimated_pipeline(const Choice& choice, const TrialInputs& inputs) {
  const PipelineSetup setup = setup_of(choice);
  PipelineBounds bounds(inputs);
  bounds.add({&choice, 1}, 1, {});
  StageTimes stages = bounds.times_of(choice);
  const Duration transfer = transfer_time(choice, inputs);
  PipelineTimes times{.chunks = std::move(stages.costs.chunks),
                      .transfer = [transfer](int, int) { return transfer; }};
  const bool gathers_again = zero_stage(choice.sharding) == 3 && choice.mesh.shard > 1;
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  for (std::size_t stage = 0; stage < times.chunks.size() && gathers_again; ++stage) {
    const Duration of_rank = stages.gathers[static_cast<std::size_t>(rank_of_stage[stage])];
    const Duration gather{of_rank.ns / setup.stages_per_rank};
    ChunkTime& chunk = times.chunks[stage];
    chunk.forward = std::max(chunk.forward, gather);
    chunk.input_backward = std::max(chunk.input_backward, gather);
  }
  const std::vector<Duration> ends = pipeline_ends(pipeline_programs(setup), times);
  const Bounds least = bounds.of(choice);
  Trial trial{.time = {}, .allocated = least.memory, .outside = {}};
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    // Stages of one rank reduce beside the backwards of its others.
    const Duration reduction{stages.reductions[rank].ns / setup.stages_per_rank};
    trial.time.span = std::max(trial.time.span,
                               stages.first_gather + ends[rank] + reduction + stages.updates[rank]);
  }
  trial.time.span = std::max(trial.time.span, least.time);
  return trial;
}

}  // namespace shardscope::planner

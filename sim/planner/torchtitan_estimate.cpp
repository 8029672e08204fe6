#include "sim/planner/torchtitan_estimate.h"

#include <algorithm>

#include "core/native/pipeline_stages.h"
#include "core/pipeline/program.h"
#include "sim/engine/pipeline_timeline.h"
#include "sim/planner/estimate.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/planner/torchtitan_probe.h"

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

ProbedStages known_stages(const Choice& choice, const TrialInputs& inputs,
                          const std::stop_token& stop) {
  if (inputs.findings == nullptr) return probed_stages(choice, inputs, stop);
  const ProbeKey key = probe_key(choice);
  if (auto known = inputs.findings->stages(key)) return std::move(*known);
  ProbedStages stages = probed_stages(choice, inputs, stop);
  inputs.findings->keep(key, stages);
  return stages;
}

}  // namespace

Trial estimated_pipeline(const Choice& choice, const TrialInputs& inputs,
                         const std::stop_token& stop) {
  // In percent, so that nothing that fits is left out: of 24 pipelines one added up to 5% too much
  // (docs/measured/2026-11-29_plan_layouts_2_cores.md).
  constexpr std::int64_t claimed = 95;
  const PipelineSetup setup = setup_of(choice);
  PipelineBounds bounds(inputs);
  bounds.add({&choice, 1}, 1, {});
  const StageTimes stages = bounds.times_of(choice);
  const Duration transfer = transfer_time(choice, inputs);
  const std::vector<int> blocks =
      blocks_of_stages(inputs.model, choice.pipeline, setup.stages(), "--pipeline-stages");
  const std::vector<StageChunks> chunks = known_stages(choice, inputs, stop).stages(blocks);
  PipelineTimes times{
      .chunks = {}, .transfer = [transfer](int, int) { return transfer; }, .one_channel = true};
  for (const StageChunks& stage : chunks) times.chunks.push_back(stage.time);
  const std::vector<Duration> ends = pipeline_ends(pipeline_programs(setup), times);
  const Bounds least = bounds.of(choice);
  Trial trial{.time = {}, .allocated = least.memory, .outside = {}};
  const Bytes context = inputs.profile.context_memory.value_or(Bytes{});
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    trial.allocated = std::max(
        trial.allocated, context + stages.states[rank] +
                             most_live(bounds.orders_of(choice)[rank], chunks) * claimed / 100);
    // Stages of one rank reduce beside the backwards of its others.
    const Duration reduction{stages.reductions[rank].ns / setup.stages_per_rank};
    trial.time.span = std::max(trial.time.span,
                               stages.first_gather + ends[rank] + reduction + stages.updates[rank]);
  }
  trial.time.span = std::max(trial.time.span, least.time);
  return trial;
}

}  // namespace shardscope::planner

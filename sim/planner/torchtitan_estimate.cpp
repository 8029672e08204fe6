#include "sim/planner/torchtitan_estimate.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "core/native/pipeline_stages.h"
#include "core/pipeline/program.h"
#include "sim/engine/pipeline_order.h"
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
  if (is_sparse(choice.checkpointing)) {
    Choice none = choice, full = choice;
    none.checkpointing = {};
    full.checkpointing = {.every = 1};
    return ProbedStages::sparse(known_stages(none, inputs, stop), known_stages(full, inputs, stop),
                                choice.checkpointing.every);
  }
  if (inputs.findings == nullptr) return probed_stages(choice, inputs, stop);
  const ProbeKey key = probe_key(choice);
  if (auto known = inputs.findings->stages(key)) return std::move(*known);
  ProbedStages stages = probed_stages(choice, inputs, stop);
  inputs.findings->keep(key, stages);
  return stages;
}

std::shared_ptr<const PipelineOrder> known_order(const PipelineSetup& setup,
                                                 const TrialInputs& inputs) {
  const auto make = [&] { return std::make_shared<const PipelineOrder>(pipeline_programs(setup)); };
  return inputs.findings == nullptr ? make()
                                    : inputs.findings->order_of_steps(order_key(setup), make);
}

StageTimeline played_timeline(const PipelineOrder& steps, const std::vector<ActionOrder>& orders,
                              const std::vector<StageChunks>& stages, Duration transfer) {
  std::vector<ChunkTime> chunks;
  for (const StageChunks& stage : stages) chunks.push_back(stage.time);
  StageTimeline timeline{.ends = steps.ends(chunks, transfer), .live = {}};
  for (const ActionOrder& order : orders) timeline.live.push_back(most_live(order, stages));
  return timeline;
}

/// What the stages of a pipeline take, and its ranks hold.
class Estimate {
 public:
  Estimate(const Choice& choice, const TrialInputs& inputs, const std::stop_token& stop)
      : choice_(choice), inputs_(inputs), setup_(setup_of(choice)), bounds_(inputs) {
    bounds_.add({&choice, 1}, 1, {});
    stages_ = bounds_.times_of(choice);
    timeline_ = known_timeline(stop);
  }

  Trial trial() const {
    const Bounds least = bounds_.of(choice_);
    Trial trial{.time = {},
                .allocated = std::max(least.memory, std::ranges::max(of_ranks())),
                .outside = {}};
    for (std::size_t rank = 0; rank < timeline_.ends.size(); ++rank) {
      // Stages of one rank reduce beside the backwards of its others.
      const Duration reduction{stages_.reductions[rank].ns / setup_.stages_per_rank};
      trial.time.span = std::max(trial.time.span, stages_.first_gather + timeline_.ends[rank] +
                                                      reduction + stages_.updates[rank]);
    }
    trial.time.span = std::max(trial.time.span, least.time);
    return trial;
  }

  /// Memory, with what lies outside.
  std::vector<Bytes> of_ranks() const {
    // In percent, so that nothing that fits is left out: of 24 pipelines one added up to 5% too
    // much (docs/measured/2026-11-29_plan_layouts_2_cores.md).
    constexpr std::int64_t claimed = 95;
    const Bytes context = inputs_.profile.context_memory.value_or(Bytes{});
    std::vector<Bytes> ranks;
    for (std::size_t rank = 0; rank < timeline_.live.size(); ++rank)
      ranks.push_back(context + stages_.states[rank] + timeline_.live[rank] * claimed / 100);
    return ranks;
  }

 private:
  /// Pipelines that differ in replicas alone share it.
  StageTimeline known_timeline(const std::stop_token& stop) const {
    const TimelineKey key{.probe = probe_key(choice_),
                          .order = order_key(setup_),
                          .blocks = blocks_of_stages(inputs_.model, choice_.pipeline,
                                                     setup_.stages(), "--pipeline-stages"),
                          .transfer = transfer_time(choice_, inputs_)};
    if (inputs_.findings != nullptr)
      if (auto known = inputs_.findings->timeline(key)) return std::move(*known);
    StageTimeline timeline =
        played_timeline(*known_order(setup_, inputs_), bounds_.orders_of(choice_),
                        known_stages(choice_, inputs_, stop).stages(key.blocks), key.transfer);
    if (inputs_.findings != nullptr) inputs_.findings->keep(key, timeline);
    return timeline;
  }

  const Choice& choice_;
  const TrialInputs& inputs_;
  PipelineSetup setup_;
  PipelineBounds bounds_;
  StageTimes stages_;
  StageTimeline timeline_;
};

}  // namespace

Trial estimated_pipeline(const Choice& choice, const TrialInputs& inputs,
                         const std::stop_token& stop) {
  return Estimate(choice, inputs, stop).trial();
}

std::vector<RankNeed> neediest_first(const Choice& choice, const TrialInputs& inputs,
                                     const std::stop_token& stop) {
  std::vector<RankNeed> ranks;
  for (const Bytes memory : Estimate(choice, inputs, stop).of_ranks())
    ranks.push_back({.rank = static_cast<int>(ranks.size()), .memory = memory});
  std::ranges::stable_sort(ranks, std::greater<>(), &RankNeed::memory);
  return ranks;
}

}  // namespace shardscope::planner

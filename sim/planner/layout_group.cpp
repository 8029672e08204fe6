#include "sim/planner/layout_group.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/native/pipeline_stages.h"
#include "core/pytorch/parallel/torchtitan_stages.h"
#include "sim/planner/parallel.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/planner/torchtitan_floor.h"

namespace shardscope::planner {
namespace {

constexpr std::string_view where = "--pipeline-stages";

std::vector<int> layers_of(const Model& model, const PipelineChoice& pipeline, int stages) {
  return blocks_of_stages(model, pipeline, stages, where);
}

/// Empty where torchtitan refuses it, or a stage has no layer.
std::vector<int> layers_by_weights(const Model& model, int stages, int input, int output) {
  try {
    std::vector<int> layers =
        eager::parallel::torchtitan_layers(static_cast<int>(model.decoder->blocks.size()), stages,
                                           {.input_weight = input, .output_weight = output}, where);
    if (std::ranges::find(layers, 0) == layers.end()) return layers;
  } catch (const Error&) {
  }
  return {};
}

/// Of a micro-batch.
struct GroupCosts {
  ModelCosts plain;  ///< nothing is checkpointed
  Bytes least_kept;  ///< of all blocks, each checkpointed
};

GroupCosts group_costs(const Choice& common, const TrialInputs& inputs) {
  GroupCosts costs{.plain = torchtitan_cost_floor(common, inputs), .least_kept = {}};
  Choice full = common;
  full.checkpointing = {.every = 1};
  for (const PartCost& block : torchtitan_cost_floor(full, inputs).blocks)
    costs.least_kept += block.kept;
  return costs;
}

/// Of a group of pipelines, by formula.
class PipelinedFloor {
 public:
  /// `trained`: elements of parameters.
  PipelinedFloor(const LayoutGroup& group, const GroupCosts& costs, std::int64_t trained,
                 const TrialInputs& inputs)
      : group_(group), choice_(group.common), costs_(costs), trained_(trained), inputs_(inputs) {}

  Bounds bounds() const {
    const ModelStates states = torchtitan_states(
        choice_, trained_ / tensor_ranks(choice_) - choice_.mesh.pipeline, inputs_);
    const Duration update = (states.parameters + states.gradients + states.optimizer_states) /
                            inputs_.profile.memory_bandwidth;
    return {.time = below(std::max(
                {of_one_stage(), of_mean(!splits()), of_mean(false) + update.seconds() / ranks()})),
            .memory = inputs_.profile.context_memory.value_or(Bytes{}) +
                      (states.parameters + states.optimizer_states + kept_by_all()) /
                          choice_.mesh.pipeline};
  }

 private:
  /// Others round each part.
  static Duration below(double seconds) {
    return std::max(Duration{}, Duration::from_seconds(seconds) - Duration{2});
  }
  double ranks() const { return choice_.mesh.pipeline; }
  double micro_batches() const { return choice_.micro_batches; }
  bool splits() const { return splits_backward(choice_.pipeline.schedule); }

  static double work_of(const PartCost& part) {
    return (part.time.forward + part.time.input_backward + part.time.weight_backward).seconds();
  }
  /// Of a micro-batch, of all stages.
  double work() const {
    double sum = work_of(costs_.plain.head);
    for (const PartCost& block : costs_.plain.blocks) sum += work_of(block);
    return sum;
  }
  double of_one_stage() const {
    if (!has_single_stage(choice_.pipeline.schedule)) return 0;
    return work() / (1 - std::pow(1 - 1 / micro_batches(), ranks()));
  }
  /// With what passes before a rank's first forward, and `behind` its last backward.
  double of_mean(bool behind) const {
    const PartCost& block = costs_.plain.blocks.front();
    const double passed = behind ? work_of(block) : block.time.forward.seconds();
    return micro_batches() * work() / ranks() +
           (ranks() - 1) / 2 * group_.variants->fewest_layers * passed;
  }

  /// GPipe and LoopedBFS begin no backward before all forwards have ended.
  Bytes kept_by_all() const {
    const PipelineScheduleKind kind = choice_.pipeline.schedule;
    if (kind != PipelineScheduleKind::gpipe && kind != PipelineScheduleKind::looped_bfs) return {};
    return costs_.least_kept * choice_.micro_batches;
  }

  const LayoutGroup& group_;
  const Choice& choice_;
  const GroupCosts& costs_;
  std::int64_t trained_;
  const TrialInputs& inputs_;
};

/// Of layouts that are no pipelines: compute grows with what is checkpointed, and activations
/// shrink.
std::vector<Bounds> floors_beside_pipelines(const std::vector<Choice>& commons,
                                            const TrialInputs& inputs, unsigned threads,
                                            const std::stop_token& stop) {
  std::vector<Choice> full = commons;
  for (Choice& choice : full) choice.checkpointing = {.every = 1};
  std::vector<Bounds> bounds = floors_of(commons, inputs, threads, stop);
  const std::vector<Bounds> least = floors_of(full, inputs, threads, stop);
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i].memory = least[i].memory;
  return bounds;
}

}  // namespace

Choice LayoutGroup::member(std::size_t number) const {
  const LayoutVariant& variant = variants->all[number];
  Choice choice = common;
  choice.checkpointing = variant.checkpointing;
  choice.pipeline.balance = variant.balance;
  choice.pipeline.layers = variant.layers;
  return choice;
}

std::vector<LayoutVariant> layer_variants(const Model& model, const PipelineChoice& pipeline,
                                          int stages) {
  constexpr int most_weight = 3;
  std::vector<LayoutVariant> variants{{.checkpointing = {}}};
  std::set<std::vector<int>> known{layers_of(model, pipeline, stages)};
  PipelineChoice by_work = pipeline;
  by_work.balance = StageBalance::work;
  if (known.insert(layers_of(model, by_work, stages)).second)
    variants.push_back({.checkpointing = {}, .balance = StageBalance::work});
  for (int input = 0; input <= most_weight; ++input)
    for (int output = 0; output <= most_weight; ++output) {
      std::vector<int> layers = layers_by_weights(model, stages, input, output);
      if (!layers.empty() && known.insert(layers).second)
        variants.push_back({.checkpointing = {}, .layers = std::move(layers)});
    }
  return variants;
}

std::vector<eager::CheckpointChoice> sparse_checkpointings(std::span<const int> layers, int least) {
  const std::set<int> sizes(layers.begin(), layers.end());
  const auto counts = [&](int every) {
    std::vector<int> checkpointed;
    for (const int size : sizes) checkpointed.push_back(size / every);
    return checkpointed;
  };
  std::vector<eager::CheckpointChoice> result;
  for (int every = least; every <= *sizes.rbegin(); ++every)
    if (counts(every) != counts(every - 1)) result.push_back({.every = every});
  return result;
}

std::vector<Bounds> group_floors(std::span<const LayoutGroup> groups, const TrialInputs& inputs,
                                 unsigned threads, const std::stop_token& stop) {
  std::map<PlainKey, GroupCosts> costs;
  std::vector<Choice> beside;
  for (const LayoutGroup& group : groups) {
    if (!is_pipelined(group.common)) {
      beside.push_back(group.common);
    } else if (const auto [of, is_new] = costs.try_emplace(plain_key(group.common));
               is_new && !stop.stop_requested()) {
      try {
        of->second = group_costs(group.common, inputs);
      } catch (const Error&) {
        // Trying its members out says why.
      }
    }
  }
  const std::vector<Bounds> of_beside = floors_beside_pipelines(beside, inputs, threads, stop);
  const std::int64_t trained = costs.empty() ? 0 : elements_in_stages(inputs.model);
  std::vector<Bounds> bounds(groups.size());
  for_each_index(groups.size(), threads, [&](std::size_t i) {
    const Choice& common = groups[i].common;
    if (!is_pipelined(common) || stop.stop_requested()) return;
    if (!costs.at(plain_key(common)).plain.blocks.empty())
      bounds[i] = PipelinedFloor(groups[i], costs.at(plain_key(common)), trained, inputs).bounds();
  });
  for (std::size_t i = 0, next = 0; i < groups.size(); ++i)
    if (!is_pipelined(groups[i].common)) bounds[i] = of_beside[next++];
  return bounds;
}

}  // namespace shardscope::planner

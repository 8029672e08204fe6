#include "sim/planner/pipeline_layers.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/native/pipeline_stages.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/prediction/stage_balance.h"

namespace shardscope::planner {
namespace {

bool is_by_number(const Choice& choice) {
  return is_pipelined(choice) && !choice.torchtitan && choice.pipeline.layers.empty() &&
         choice.pipeline.balance == StageBalance::layers;
}

/// What each rank computes for one micro-batch, in seconds.
std::vector<double> work_of_ranks(const PipelineSetup& setup, const StageCosts& stages) {
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  std::vector<double> ranks(static_cast<std::size_t>(setup.ranks), 0);
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
    const ChunkTime& chunk = stages.chunks[s];
    ranks[static_cast<std::size_t>(rank_of_stage[s])] +=
        (chunk.forward + chunk.input_backward + chunk.weight_backward).seconds();
  }
  return ranks;
}

/// Of pipelines with one setup and one kind of micro-batch the same layers are best.
class DealtOut {
 public:
  DealtOut(const TrialInputs& inputs, std::map<PlainKey, ModelCosts> costs)
      : inputs_(inputs), costs_(std::move(costs)) {}

  /// Empty: they are dealt out so by number or work, too, or the costs are not known.
  const std::vector<int>& layers_of(const Choice& choice) {
    const PlainKey plain = plain_key(choice);
    const PipelineSetup setup = setup_of(choice);
    const auto [found, is_new] = found_.try_emplace(
        Key{plain, setup.kind, setup.ranks, setup.stages_per_rank, setup.micro_batches});
    if (is_new) found->second = layers(choice, setup, costs_.at(plain));
    return found->second;
  }

 private:
  using Key = std::tuple<PlainKey, PipelineScheduleKind, int, int, int>;

  std::vector<int> layers(const Choice& choice, const PipelineSetup& setup,
                          const ModelCosts& costs) const {
    if (costs.blocks.empty()) return {};
    PipelineChoice by_work = choice.pipeline;
    by_work.balance = StageBalance::work;
    const std::vector<int> start = blocks_of(by_work, setup);
    std::vector<int> found = layers_by_time(start, setup, costs);
    if (found == start || found == blocks_of(choice.pipeline, setup)) found.clear();
    return found;
  }
  std::vector<int> blocks_of(const PipelineChoice& choice, const PipelineSetup& setup) const {
    return blocks_of_stages(inputs_.model, choice, setup.stages(), "--pipeline-stages");
  }

  const TrialInputs& inputs_;
  std::map<PlainKey, ModelCosts> costs_;
  std::map<Key, std::vector<int>> found_;
};

}  // namespace

std::vector<int> layers_by_time(std::vector<int> layers, const PipelineSetup& setup,
                                const ModelCosts& model) {
  return balanced_stages(
      std::move(layers), rank_of_stages(setup), [&](const std::vector<int>& dealt) {
        const StageCosts stages = stage_costs(model, dealt);
        return PipelineCosts{.whole = pipeline_time_bound(setup, stages, 0).seconds(),
                             .ranks = work_of_ranks(setup, stages)};
      });
}

void add_layers_by_time(std::vector<Choice>& choices, const TrialInputs& inputs, unsigned threads,
                        const std::stop_token& stop) {
  if (std::ranges::none_of(choices, is_by_number)) return;
  DealtOut dealt(inputs, model_costs_of(choices, inputs, threads, stop));
  std::vector<Choice> all;
  for (const Choice& choice : choices) {
    all.push_back(choice);
    if (!is_by_number(choice)) continue;
    const std::vector<int>& layers = dealt.layers_of(choice);
    if (layers.empty()) continue;
    all.push_back(choice);
    all.back().pipeline.layers = layers;
  }
  choices = std::move(all);
}

}  // namespace shardscope::planner

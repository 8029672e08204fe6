#include "sim/validate/published_pipeline.h"

#include <algorithm>
#include <cstddef>

#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

constexpr std::int64_t bytes_of_activation_element = 2;

/// nanotron's rule: blocks in order, the next rank where their cumulated cost passes its share; the
/// head counts, the embedding does not. Source: nanotron models/base.py (build_model),
/// models/llama.py (get_block_compute_costs).
std::vector<int> balanced_layers(const PublishedRow& row, const ShapedModel& model, int stages) {
  const auto hidden = static_cast<double>(*row.hidden);
  const auto ffn = static_cast<double>(row.ffn.value_or(4 * *row.hidden));
  const double block = 4 * hidden * hidden + 3 * ffn * hidden;
  const double head = hidden * static_cast<double>(model.config.at("vocab_size").integer());
  const double all = block * static_cast<double>(*row.layers) + head;
  std::vector<int> counts(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  for (std::int64_t i = 0; i < *row.layers; ++i) {
    ++counts[stage];
    const double threshold = all * static_cast<double>(stage + 1) / stages;
    const bool passes = block * static_cast<double>(i + 1) > threshold;
    if (passes && stage + 1 < counts.size()) ++stage;
  }
  return counts;
}

}  // namespace

int stages_of_rank(const PublishedRow& row) {
  if (row.virtual_stages) return static_cast<int>(std::max<std::int64_t>(1, *row.virtual_stages));
  const auto virtual_stages = number_after(row.strategy, "VP");
  return std::max(
      1, virtual_stages ? *virtual_stages : number_after(row.strategy, "interleave ").value_or(1));
}

MegatronPipeline published_pipeline(const PublishedRow& row, const ShapedModel& model,
                                    const TrainingStack& stack, std::int64_t micro_batch) {
  MegatronPipeline pipeline{.ranks = static_cast<int>(row.pipeline_parallel.value_or(1)),
                            .by_deepspeed = stack.pipelines_by_deepspeed};
  pipeline.stages_per_rank = stages_of_rank(row);
  const int stages = pipeline.ranks * pipeline.stages_per_rank;
  pipeline.layers = stack.balances_stages ? balanced_layers(row, model, stages)
                                          : equal_layers(*row.layers, stages);
  pipeline.played_layers = *std::ranges::max_element(pipeline.layers);
  pipeline.activation = Bytes{micro_batch * *row.seq * *row.hidden * bytes_of_activation_element};
  if (is_tied(model))
    pipeline.shared_gradient =
        Bytes{model.config.at("vocab_size").integer() * *row.hidden * bytes_of_activation_element};
  if (stack.pipelines_by_deepspeed)
    pipeline.divided_over = static_cast<int>(row.tensor_parallel.value_or(1));
  pipeline.rank_distance = static_cast<int>(*row.gpus) / pipeline.ranks;
  return pipeline;
}

}  // namespace shardscope

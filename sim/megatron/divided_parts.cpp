#include "sim/megatron/divided_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace shardscope {
namespace {

/// Elements of experts' parameters, of all that are played.
std::int64_t expert_elements(const Model& model) {
  std::int64_t elements = 0;
  for (const Parameter& parameter : model.parameters)
    if (parameter.name.find(".mlp.experts.") != std::string::npos) elements += parameter.elements();
  return elements;
}

/// Ranks that have other experts lie between those with the same.
ExpertUpdate expert_update(const DividedTraining& training, const ExpertShape& experts,
                           int shards) {
  const int ranks = training.experts.ranks;
  if (ranks == 1) return {};
  // Experts that are played may be more than those that the rank holds (expert_part).
  const std::int64_t held = experts.experts / ranks;
  const std::int64_t played = std::max(held, experts.chosen);
  const int data_ranks = std::max(1, training.world / ranks);
  return {.elements = expert_elements(training.played.model) / played * held,
          .data_ranks = data_ranks,
          .rank_distance = ranks,
          .shards = std::max(1, std::min(shards / ranks, data_ranks))};
}

}  // namespace

MegatronUpdate update_apart(const DividedTraining& training, const ExpertShape& experts, int shards,
                            Dtype reduced_in) {
  const Model& model = training.played.model;
  const ExpertUpdate apart = expert_update(training, experts, shards);
  return {
      .elements = model.parameter_elements() - (apart.elements > 0 ? expert_elements(model) : 0),
      .tensors = static_cast<std::int64_t>(model.parameters.size()),
      .data_ranks = training.world,
      .rank_distance = training.tensor.ranks,
      .shards = shards,
      .reduced_in = reduced_in,
      .experts = apart};
}

bool takes_fused_softmax(std::int64_t batches, std::int64_t length) {
  constexpr std::int64_t shortest = 16, longest = 4096, of_vector = 4, short_row = 128;
  const std::int64_t of_block = length <= short_row ? 2 * of_vector : of_vector;
  return length > shortest && length <= longest && length % of_vector == 0 &&
         batches % of_vector == 0 && batches % of_block == 0;
}

void attend_by_products(DividedTraining& training, std::int64_t heads) {
  eager::TrainingSetup& setup = training.setup;
  const std::int64_t batches = setup.loop.batch * heads, length = setup.loop.length;
  setup.model.attention = eager::AttentionImplementation::eager;
  if (training.kernels.fusion != KernelFusion::by_hand || takes_fused_softmax(batches, length))
    return;
  setup.model.attention = eager::AttentionImplementation::megatron;
  training.kernels.fuses_attention = false;
  training.assumed.push_back(
      fmt::format("softmax by PyTorch's operators: Megatron's fused kernel does not take {} "
                  "heads of {} tokens",
                  batches, length));
}

}  // namespace shardscope

// DDP's buckets as a ShardingPlan.
#include "core/pytorch/plans/plan_states.h"
#include "core/pytorch/plans/runtime_plans.h"
#include "core/pytorch/plans/zero_redundancy.h"
#include "core/schedule/model_states.h"

namespace shardscope {
namespace {

PlannedBucket planned(const ModuleTree& tree, const DdpBuckets& buckets, const Bucket& bucket) {
  PlannedBucket result;
  for (const std::int64_t index : bucket.tensors) {
    const auto parameter = buckets.parameters[static_cast<std::size_t>(index)];
    const TreeParameter& held = tree.parameters[static_cast<std::size_t>(parameter)];
    result.parameters.push_back(held.name);
    result.elements += held.elements();
  }
  result.padded_elements = result.shard_elements = result.elements;
  return result;
}

/// States that the question's rank keeps under ZeroRedundancyOptimizer, which is given all
/// parameters, frozen ones too.
Bytes owned_states(const ModuleTree& tree, const PlanQuestion& question) {
  std::vector<const TreeParameter*> parameters;
  std::vector<std::int64_t> elements;
  for (const TreeParameter& parameter : tree.parameters) {
    if (parameter.same_as) continue;
    parameters.push_back(&parameter);
    elements.push_back(parameter.elements());
  }
  const auto owned = zero_redundancy_partition(elements, question.world);
  Bytes sum;
  for (const std::size_t index : owned[static_cast<std::size_t>(question.rank)]) {
    const std::int64_t trained = parameters[index]->trainable ? elements[index] : 0;
    sum += states_in(held_dtype(*parameters[index], question.float32_parameters),
                     {.states = trained}, question.optimizer)
               .optimizer_states;
  }
  return sum;
}

}  // namespace

ShardingPlan plan_of(const ModuleTree& tree, const DdpShown& shown, const PlanQuestion& question) {
  const DdpBuckets buckets = ddp_buckets(tree, shown.options);
  const ShardingStrategy strategy =
      shown.zero_redundancy ? ShardingStrategy::zero1 : ShardingStrategy::no_shard;
  const ModelStates whole = whole_states(tree, question.optimizer, question.float32_parameters);
  ShardingPlan plan{.runtime = Runtime::ddp,
                    .strategy = std::string(name_of(strategy)),
                    .mesh = text_of(Mesh{.replicate = question.world}),
                    .wrap = "none",
                    .precision = question.precision,
                    .optimizer = std::string(name_of(question.optimizer.kind)),
                    .world = question.world,
                    .whole = whole,
                    .per_rank = whole};
  for (const Bucket& bucket : buckets.buckets)
    plan.buckets.push_back(planned(tree, buckets, bucket));
  if (shown.zero_redundancy) plan.per_rank.optimizer_states = owned_states(tree, question);
  return plan;
}

}  // namespace shardscope

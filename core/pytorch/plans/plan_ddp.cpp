// DDP's buckets as a ShardingPlan.
#include "core/pytorch/plans/plan_states.h"
#include "core/pytorch/plans/runtime_plans.h"
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

}  // namespace

ShardingPlan plan_of(const ModuleTree& tree, const DdpOptions& options,
                     const PlanQuestion& question) {
  const DdpBuckets buckets = ddp_buckets(tree, options);
  const ModelStates whole = whole_states(tree, question.optimizer, question.float32_parameters);
  ShardingPlan plan{.runtime = Runtime::ddp,
                    .strategy = std::string(name_of(ShardingStrategy::no_shard)),
                    .mesh = text_of(Mesh{.replicate = question.world}),
                    .wrap = "none",
                    .precision = question.precision,
                    .optimizer = std::string(name_of(question.optimizer.kind)),
                    .world = question.world,
                    .whole = whole,
                    .per_rank = whole};
  for (const Bucket& bucket : buckets.buckets)
    plan.buckets.push_back(planned(tree, buckets, bucket));
  return plan;
}

}  // namespace shardscope

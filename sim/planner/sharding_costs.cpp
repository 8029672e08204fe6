#include "sim/planner/sharding_costs.h"

namespace shardscope::planner {
namespace {

bool gathers_float8(const Choice& choice, const TrialInputs& inputs) {
  return choice.runtime == Runtime::fsdp2 &&
         eager::parallel::float8_settings(inputs.training.float8, true).fsdp_all_gather;
}

}  // namespace

Group group_of(int stride, int size) {
  return {.name = {}, .ranks = Ranks::spaced(0, stride, static_cast<std::size_t>(size))};
}

bool shards_parameters(ShardingStrategy sharding) {
  return sharding == ShardingStrategy::full_shard || sharding == ShardingStrategy::hybrid_shard;
}

ShardingCosts::ShardingCosts(const Choice& of, const TrialInputs& with)
    : choice(of),
      inputs(with),
      shards(group_of(1, of.mesh.shard)),
      replicas(group_of(of.mesh.shard, of.mesh.replicate)),
      world(group_of(1, of.mesh.world())),
      dtype(compute_dtype(of.precision).value_or(parameter_dtype(of.precision))),
      gathered_dtype(gathers_float8(of, with) ? Dtype::uint8 : dtype) {
  for (const Parameter& parameter : with.model.parameters) {
    elements += parameter.elements();
    if (parameter.trainable) trainable += parameter.elements();
  }
}

ShardingPlan ShardingCosts::plan() const {
  RuntimeRequest request = runtime_request(choice, inputs.model);
  request.optimizer = inputs.training.optimizer;
  ShardingPlan plan = plan_of(inputs.model, request);
  // A bound counts what is there for sure: these keep less than AdamW's states, or elsewhere.
  const eager::OptimizerSettings& optimizer = inputs.training.loop.optimizer;
  if (optimizer.bitsandbytes || optimizer.rule == eager::OptimizerRule::adafactor ||
      optimizer.rule == eager::OptimizerRule::muon)
    plan.per_rank.optimizer_states = {};
  return plan;
}

Duration ShardingCosts::time(OperationKind kind, std::int64_t count, Dtype of,
                             const Group& group) const {
  return inputs.costs.collective_time(kind, bytes_of(count, of), group);
}

Duration ShardingCosts::read_once(const ModelStates& states) const {
  return (states.parameters + states.gradients + states.optimizer_states) /
         inputs.profile.memory_bandwidth;
}

Duration ShardingCosts::copied(std::int64_t count, Dtype of) const {
  return inputs.costs.copy_time(bytes_of(2 * count, of));
}

void ShardingCosts::keep_gradients(Dtype of, ShardingBounds& result) const {
  result.kept_gradients = bytes_of(trainable, of);
  result.further.copies = result.kept_gradients * 3 / inputs.profile.memory_bandwidth;
}

}  // namespace shardscope::planner

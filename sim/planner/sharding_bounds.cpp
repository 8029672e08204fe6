#include "sim/planner/sharding_bounds.h"

#include "core/native/zero_paper.h"
#include "sim/planner/sharding_costs.h"

namespace shardscope::planner {
namespace {

/// The ZeRO paper's forms, without padding. A sum over the world is a scatter at least.
ShardingBounds native_bounds(const ShardingCosts& costs) {
  const Choice& choice = costs.choice;
  ShardingBounds result;
  const Precision precision = native_strategy(choice, costs.inputs.model).precision;
  const Dtype gradients = dtypes_of(precision).gradients;
  result.states = zero_paper_states(costs.trainable, choice.sharding, choice.mesh.shard,
                                    costs.inputs.training.optimizer, precision, gradients);
  if (choice.offload != Offload::none) result.states.optimizer_states = {};
  if (choice.offload == Offload::all) result.states.parameters = {};
  const bool hybrid = choice.mesh.shard > 1 && choice.mesh.replicate > 1;
  Communication& once = result.once.communication;
  once.reductions = costs.time(OperationKind::reduce_scatter, costs.trainable, gradients,
                               hybrid ? costs.shards : costs.world);
  if (hybrid)
    once.between_replicas = costs.time(
        OperationKind::all_reduce, costs.trainable / choice.mesh.shard, gradients, costs.replicas);
  if (shards_parameters(choice.sharding))
    once.gathers = costs.time(OperationKind::all_gather, costs.elements, costs.dtype, costs.shards);
  return result;
}

ShardingBounds ddp_bounds(const ShardingCosts& costs) {
  ShardingBounds result;
  const ShardingPlan sharding = costs.plan();
  const Dtype gradients = parameter_dtype(costs.choice.precision);
  result.states = sharding.per_rank;
  result.once.communication.reductions =
      costs.time(OperationKind::all_reduce, costs.trainable, gradients, costs.world);
  costs.keep_gradients(gradients, result);
  result.update = costs.read_once(result.states);
  return result;
}

ShardingBounds bounds_of_runtime(const ShardingCosts& costs) {
  switch (costs.choice.runtime) {
    case Runtime::native:
      return native_bounds(costs);
    case Runtime::fsdp1:
    case Runtime::fsdp2:
      return fsdp_bounds(costs);
    case Runtime::ddp:
      return ddp_bounds(costs);
    case Runtime::deepspeed:
      return deepspeed_bounds(costs);
  }
  return {};
}

}  // namespace

ShardingKey sharding_key(const Choice& choice) {
  return {.runtime = choice.runtime,
          .sharding = choice.sharding,
          .replicate = choice.mesh.replicate,
          .shard = choice.mesh.shard,
          .torchtitan = choice.torchtitan.has_value(),
          .context = context_ranks(choice),
          .tensor = tensor_ranks(choice),
          .experts = has_experts(choice) ? expert_ranks(choice) : 0,
          .blocks_per_unit = choice.blocks_per_unit,
          .reduces_every_micro_batch = choice.reduces_every_micro_batch,
          .overlaps = choice.runtime == Runtime::deepspeed && choice.prefetch != Prefetch::none,
          .offload = choice.offload,
          .precision = choice.precision};
}

ShardingBounds sharding_bounds(const Choice& choice, const TrialInputs& inputs) {
  const ShardingCosts costs(choice, inputs);
  if (choice.torchtitan)
    return has_experts(choice) ? mixture_bounds(costs) : torchtitan_bounds(costs);
  return inputs.training.fine_tuning ? adapter_bounds(costs) : bounds_of_runtime(costs);
}

}  // namespace shardscope::planner

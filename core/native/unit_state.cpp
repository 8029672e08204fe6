#include "core/native/unit_state.h"

#include <fmt/format.h>

#include "core/schedule/schedule_builder.h"

namespace shardscope {

Sharding sharding_of(const Strategy& strategy) {
  const bool many = strategy.mesh.shard > 1;
  switch (strategy.sharding) {
    case ShardingStrategy::no_shard:
      return {};
    case ShardingStrategy::zero1:
      return {.optimizer_states = many};
    case ShardingStrategy::shard_grad_op:
      return {.gradients = many, .optimizer_states = many};
    case ShardingStrategy::full_shard:
      return {.parameters = many || strategy.offload == Offload::all,
              .gradients = many,
              .optimizer_states = many};
    case ShardingStrategy::hybrid_shard:
    case ShardingStrategy::hybrid_shard_zero2:
      return {.parameters = strategy.sharding == ShardingStrategy::hybrid_shard &&
                            (many || strategy.offload == Offload::all),
              .gradients = many,
              .optimizer_states = many,
              .replicas = strategy.mesh.replicate > 1};
  }
  return {};
}

bool has_master(const Strategy& strategy) {
  return dtypes_of(strategy.precision).has_master() || strategy.offload == Offload::optimizer;
}

std::string named(std::string_view what, const Unit& unit) {
  return fmt::format("{}:{}", what, unit.name.empty() ? "root" : unit.name);
}

Operand own_part(BufferId buffer, const Unit& unit, int shard, Dtype dtype, Access access) {
  return ScheduleBuilder::part(buffer, {dtype, shard * unit.shard_elements, unit.shard_elements},
                               access);
}

Collective gather_of(const Unit& unit, GroupId group, Dtype dtype) {
  return {group, unit.shard_elements, unit.padded_elements, dtype};
}

}  // namespace shardscope

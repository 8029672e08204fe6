#include "core/native/native_step.h"

#include <algorithm>
#include <string>

#include "core/native/checkpointing.h"

namespace shardscope {
namespace {

constexpr auto persistent = ScheduleBuilder::Life::persistent;

int data_parallel_ranks(const Strategy& strategy) {
  return strategy.mesh.replicate * strategy.mesh.shard;
}

BatchShape batch_shape(const Strategy& strategy, const Workload& workload, const Target& target) {
  const double parts = static_cast<double>(workload.micro_batches) * data_parallel_ranks(strategy);
  return {.batch = workload.batch,
          .length = workload.length,
          .loss_scale = 1.0 / parts,
          .dtypes = dtypes_of(strategy.precision),
          .fusions = target.fusions,
          .logits = target.logits};
}

OperatorGraph graph_of(const Model& model, const Strategy& strategy, const BatchShape& shape) {
  OperatorGraph graph = lower(model, shape);
  if (strategy.checkpointing == Checkpointing::full) checkpoint_blocks(graph);
  return graph;
}

class StorageMaker {
 public:
  StorageMaker(const NativeStep& step, ScheduleBuilder& builder) : step_(step), builder_(builder) {}

  NativeStorage make() {
    NativeStorage storage;
    const Workload& workload = step_.workload;
    const std::int64_t tokens = workload.batch * workload.length * workload.micro_batches;
    storage.tokens = keep("tokens", MemoryCategory::inputs, bytes_of(tokens, Dtype::int32));
    storage.targets = keep("targets", MemoryCategory::inputs, bytes_of(tokens, Dtype::int32));
    for (std::size_t u = 0; u < step_.plan.units.size(); ++u)
      storage.units.push_back(unit_state(UnitId::of(u)));
    storage.loss = keep("loss", MemoryCategory::temporaries, bytes_of(2, Dtype::float64));
    storage.clip = keep("clip", MemoryCategory::temporaries, bytes_of(2, Dtype::float64));
    return storage;
  }

 private:
  BufferId keep(std::string name, MemoryCategory category, Bytes bytes, UnitId unit = {}) {
    return builder_.add_buffer(std::move(name), category, bytes, unit, persistent);
  }

  static std::int64_t stored_elements(const Unit& unit, bool sharded) {
    return sharded ? unit.shard_elements : unit.padded_elements;
  }

  /// A unit's parameters are all trained or all frozen.
  bool is_trainable(const Unit& unit) const {
    return step_.model.parameters[unit.slots.front().parameter.value].trainable;
  }

  UnitState unit_state(UnitId id) {
    const Unit& unit = step_.unit(id);
    const PrecisionDtypes& dtypes = step_.dtypes;
    UnitState state{.trainable = is_trainable(unit)};
    state.parameters =
        keep(named("parameters", unit), MemoryCategory::parameters,
             bytes_of(stored_elements(unit, step_.sharding.parameters), dtypes.compute), id);
    if (!state.trainable) return state;
    const Bytes bytes =
        bytes_of(stored_elements(unit, step_.sharding.optimizer_states), dtypes.updated);
    const auto category = MemoryCategory::optimizer_states;
    const Optimizer& optimizer = step_.workload.optimizer;
    if (dtypes.has_master()) state.master = keep(named("master", unit), category, bytes, id);
    if (optimizer.kind == OptimizerKind::adamw) {
      state.first_state = keep(named("adam_m", unit), category, bytes, id);
      state.second_state = keep(named("adam_v", unit), category, bytes, id);
    } else if (optimizer.momentum != 0) {
      state.first_state = keep(named("momentum", unit), category, bytes, id);
    }
    return state;
  }

  const NativeStep& step_;
  ScheduleBuilder& builder_;
};

}  // namespace

NativeStep native_step(const Model& model, const Strategy& strategy, const Workload& workload,
                       int rank, const Target& target) {
  return {.model = model,
          .target = target,
          .strategy = strategy,
          .workload = workload,
          .sharding = sharding_of(strategy),
          .dtypes = dtypes_of(strategy.precision),
          .shard = shard_position(strategy, rank),
          .plan = plan_units(model, strategy),
          .graph = graph_of(model, strategy, batch_shape(strategy, workload, target))};
}

NativeGroups add_groups(const NativeStep& step, int rank, ScheduleBuilder& builder) {
  NativeGroups groups;
  const ShardPosition& shard = step.shard;
  const int world = data_parallel_ranks(step.strategy);
  if (world > 1) groups.world = builder.add_group({"world", Ranks::up_to(world)});
  if (shard.count == world) {
    groups.shard = groups.world;
  } else if (shard.count > 1) {
    const auto count = static_cast<std::size_t>(shard.count);
    groups.shard = builder.add_group({"shard", Ranks::spaced(rank - shard.index, 1, count)});
  }
  if (step.sharding.replicas) {
    const auto count = static_cast<std::size_t>(step.strategy.mesh.replicate);
    groups.replicate =
        builder.add_group({"replicate", Ranks::spaced(shard.index, shard.count, count)});
  }
  return groups;
}

NativeStorage add_storage(const NativeStep& step, ScheduleBuilder& builder) {
  return StorageMaker(step, builder).make();
}

const FlatSlot& slot_of(const Unit& unit, ParameterId parameter) {
  return *std::ranges::lower_bound(unit.slots, parameter, {}, &FlatSlot::parameter);
}

Collective reduction(GroupId group, std::int64_t elements_in, std::int64_t elements_out,
                     Dtype dtype) {
  return {group, elements_in, elements_out, dtype};
}

}  // namespace shardscope

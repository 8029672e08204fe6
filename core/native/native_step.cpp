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

BatchShape batch_shape(const NativeTraining& training, const Target& target) {
  const Strategy& strategy = training.strategy;
  const Workload& workload = training.workload;
  const double parts = static_cast<double>(workload.micro_batches) * data_parallel_ranks(strategy);
  return {.batch = workload.batch,
          .length = workload.length,
          .loss_scale = 1.0 / parts,
          .dtypes = dtypes_of(strategy.precision),
          .fusions = target.fusions,
          .delays_weight_gradients =
              strategy.mesh.pipeline > 1 && splits_backward(training.pipeline.schedule),
          .logits = target.logits};
}

/// `part` is null without a pipeline.
OperatorGraph graph_of(const Model& model, const NativeTraining& training, const BatchShape& shape,
                       const PipelinePart* part) {
  OperatorGraph graph =
      lower(model, shape, part != nullptr ? part->segments : std::vector{whole_model(model)});
  checkpoint_blocks(training.strategy.checkpointing, graph);
  if (part != nullptr)
    checkpoint_stage(
        checkpointed_micro_batches(training.pipeline.checkpoint, training.workload.micro_batches),
        graph);
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
    if (step_.updates_on_host())
      storage.host_clip = builder_.add_host_buffer("host_clip", MemoryCategory::temporaries,
                                                   bytes_of(2, Dtype::float64));
    return storage;
  }

 private:
  BufferId keep(const std::string& name, MemoryCategory category, Bytes bytes, UnitId unit = {}) {
    return builder_.add_buffer(name, category, bytes, unit, persistent);
  }
  BufferId keep(const std::string& name, MemoryCategory category, Bytes bytes, UnitId unit,
                bool on_host) {
    return on_host ? builder_.add_host_buffer(name, category, bytes, unit)
                   : keep(name, category, bytes, unit);
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
    if (unit.slots.empty()) return {};  // the root of a stage between the first and the last
    UnitState state{.trainable = is_trainable(unit)};
    state.parameters =
        keep(named("parameters", unit), MemoryCategory::parameters,
             bytes_of(stored_elements(unit, step_.sharding.parameters), dtypes.compute), id,
             step_.strategy.offload == Offload::all);
    if (!state.trainable) return state;
    const bool on_host = step_.updates_on_host();
    const std::int64_t elements = stored_elements(unit, step_.sharding.optimizer_states);
    const Bytes bytes = bytes_of(elements, dtypes.updated);
    const auto category = MemoryCategory::optimizer_states;
    const Optimizer& optimizer = step_.workload.optimizer;
    if (has_master(step_.strategy))
      state.master = keep(named("master", unit), category, bytes, id, on_host);
    if (optimizer.kind == OptimizerKind::adamw) {
      state.first_state = keep(named("adam_m", unit), category, bytes, id, on_host);
      state.second_state = keep(named("adam_v", unit), category, bytes, id, on_host);
    } else if (optimizer.momentum != 0) {
      state.first_state = keep(named("momentum", unit), category, bytes, id, on_host);
    }
    if (on_host) add_host_copies(id, elements, state);
    return state;
  }

  /// What goes between the device and an update on the host.
  void add_host_copies(UnitId id, std::int64_t elements, UnitState& state) {
    const Unit& unit = step_.unit(id);
    const PrecisionDtypes& dtypes = step_.dtypes;
    state.host_gradients =
        builder_.add_host_buffer(named("host_gradients", unit), MemoryCategory::gradients,
                                 bytes_of(elements, dtypes.gradients), id);
    if (step_.strategy.offload == Offload::optimizer && dtypes.has_master())
      state.host_parameters =
          builder_.add_host_buffer(named("host_parameters", unit), MemoryCategory::parameters,
                                   bytes_of(elements, dtypes.compute), id);
  }

  const NativeStep& step_;
  ScheduleBuilder& builder_;
};

/// All ranks have the same groups in the same order; who has no partner is alone in one.
void add_pipeline_groups(const NativeStep& step, int rank, ScheduleBuilder& builder,
                         NativeGroups& groups) {
  const int stride = data_parallel_ranks(step.strategy);
  const int stages = step.strategy.mesh.pipeline;
  const int stage = step.pipeline_rank;
  const int column = rank - stage * stride;
  const auto pair = [&](std::string name, int low, int high) {
    const bool both = low >= 0 && high < stages;
    return builder.add_group(
        {std::move(name),
         both ? Ranks::spaced(column + low * stride, (high - low) * stride, 2) : Ranks{rank}});
  };
  groups.all = builder.add_group({"world", Ranks::up_to(step.strategy.mesh.world())});
  groups.pipeline = builder.add_group(
      {"pipeline", Ranks::spaced(column, stride, static_cast<std::size_t>(stages))});
  const int even = stage - stage % 2;
  const int odd = stage - (stage + 1) % 2;
  groups.even_pair = pair("stages from an even one", even, even + 1);
  groups.odd_pair = stages > 2 ? pair("stages from an odd one", odd, odd + 1) : groups.even_pair;
  const bool at_end = stage == 0 || stage + 1 == stages;
  groups.ends =
      stages > 2 ? pair("first and last stage", at_end ? 0 : -1, stages - 1) : groups.even_pair;
}

}  // namespace

PipelineParts pipeline_parts(const NativeTraining& training) {
  PipelineParts pipeline;
  const int ranks = training.strategy.mesh.pipeline;
  for (int rank = 0; ranks > 1 && rank < ranks; ++rank) {
    pipeline.parts.push_back(pipeline_part(training.model, training.strategy, training.pipeline,
                                           training.workload.micro_batches, rank));
    const PipelinePart& part = pipeline.parts.back();
    pipeline.plans.push_back(plan_units(part.model, training.strategy, part.has_parameter));
  }
  return pipeline;
}

std::vector<UnitPlan> unit_plans(const NativeTraining& training) {
  if (training.strategy.mesh.pipeline > 1) return pipeline_parts(training).plans;
  return {plan_units(training.model, training.strategy)};
}

NativeStep native_step(const NativeTraining& training, const PipelineParts& pipeline, int rank,
                       const Target& target) {
  const Strategy& strategy = training.strategy;
  const int position = pipeline_rank(strategy.mesh, rank);
  const PipelinePart* const part =
      pipeline.parts.empty() ? nullptr : &pipeline.parts[static_cast<std::size_t>(position)];
  const Model& model = part != nullptr ? part->model : training.model;
  UnitPlan plan = part != nullptr ? pipeline.plans[static_cast<std::size_t>(position)]
                                  : plan_units(model, strategy);
  OperatorGraph graph = graph_of(model, training, batch_shape(training, target), part);
  return {.model = training.model,
          .target = target,
          .strategy = strategy,
          .workload = training.workload,
          .pipeline = pipeline,
          .pipeline_rank = position,
          .sharding = sharding_of(strategy),
          .dtypes = dtypes_of(strategy.precision),
          .shard = shard_position(strategy, rank),
          .plan = std::move(plan),
          .graph = std::move(graph)};
}

NativeGroups add_groups(const NativeStep& step, int rank, ScheduleBuilder& builder) {
  NativeGroups groups;
  const ShardPosition& shard = step.shard;
  const int world = data_parallel_ranks(step.strategy);
  const int first = rank - data_parallel_rank(step.strategy.mesh, rank);
  if (step.is_pipelined()) {
    add_pipeline_groups(step, rank, builder, groups);
    if (world > 1)
      groups.world =
          builder.add_group({"stage", Ranks::spaced(first, 1, static_cast<std::size_t>(world))});
  } else if (world > 1) {
    groups.all = groups.world = builder.add_group({"world", Ranks::up_to(world)});
  }
  if (shard.count == world) {
    groups.shard = groups.world;
  } else if (shard.count > 1) {
    const auto count = static_cast<std::size_t>(shard.count);
    groups.shard = builder.add_group({"shard", Ranks::spaced(rank - shard.index, 1, count)});
  }
  if (step.sharding.replicas) {
    const auto count = static_cast<std::size_t>(step.strategy.mesh.replicate);
    groups.replicate =
        builder.add_group({"replicate", Ranks::spaced(first + shard.index, shard.count, count)});
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

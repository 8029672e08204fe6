// The native runtime's rules: what is gathered, reduced, kept and freed when, for each strategy.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/lower/checkpointing.h"
#include "core/lower/operator_graph.h"
#include "core/native_optimizer.h"
#include "core/native_units.h"
#include "core/native_visits.h"
#include "core/schedule.h"
#include "core/schedule_builder.h"
#include "core/units.h"

namespace shardscope {
namespace {

constexpr auto persistent = ScheduleBuilder::Life::persistent;

class NativeScheduler {
 public:
  NativeScheduler(const Model& model, const Strategy& strategy, const Workload& workload, int rank,
                  const Target& target)
      : model_(model),
        strategy_(strategy),
        workload_(workload),
        target_(target),
        sharding_(sharding_of(strategy)),
        dtypes_(dtypes_of(strategy.precision)),
        shard_(shard_position(strategy, rank)),
        plan_(plan_units(model, strategy)),
        graph_(lower(model, batch_shape())),
        builder_(empty_schedule(rank)),
        units_(plan_.units.size()),
        step_values_(graph_.values.size()) {
    if (strategy.checkpointing == Checkpointing::full) checkpoint_blocks(graph_);
    step_values_.resize(graph_.values.size());
    builder_.schedule().units = plan_.units;
    make_groups(rank);
  }

  Schedule build() {
    make_persistent_buffers();
    run_setup();
    const auto first = static_cast<std::uint32_t>(builder_.schedule().operations.size());
    zero_loss();
    run_visits(visits_of(graph_, plan_, workload_.micro_batches));
    while (!pending_.empty()) finish_oldest_reduction();
    reduce_loss();
    add_optimizer({.model = model_,
                   .workload = workload_,
                   .plan = plan_,
                   .units = units_,
                   .sharding = sharding_,
                   .dtypes = dtypes_,
                   .shard = shard_,
                   .shard_group = shard_group_,
                   .clip = clip_},
                  builder_);
    Schedule schedule = builder_.finish();
    schedule.steps = {{"steady", {first, static_cast<std::uint32_t>(schedule.operations.size())}}};
    for (std::uint32_t i = first; i < schedule.operations.size(); ++i)
      schedule.operations[i].step = 0;
    return schedule;
  }

 private:
  using Label = ScheduleBuilder::Label;

  /// A reduction that was issued and not yet waited for.
  struct Pending {
    UnitId unit;
    OperationId last;
    BufferId to_add;  ///< a later micro-batch's reduced shard, to be added to the unit's gradients
    int micro_batch = 0;
  };

  int data_parallel_ranks() const { return strategy_.mesh.replicate * strategy_.mesh.shard; }
  BatchShape batch_shape() const {
    return {
        .batch = workload_.batch,
        .length = workload_.length,
        .loss_scale = 1.0 / (static_cast<double>(workload_.micro_batches) * data_parallel_ranks()),
        .dtypes = dtypes_,
        .fusions = target_.fusions,
        .logits = target_.logits};
  }
  Schedule empty_schedule(int rank) const {
    Schedule schedule;
    schedule.strategy = strategy_;
    schedule.workload = workload_;
    schedule.rank = rank;
    schedule.world = strategy_.mesh.world();
    return schedule;
  }
  const Unit& unit_at(UnitId id) const { return plan_.units[id.value]; }
  UnitState& state_of(UnitId id) { return units_[id.value]; }
  std::string named(std::string_view what, UnitId unit) const {
    return shardscope::named(what, unit_at(unit));
  }

  void make_groups(int rank) {
    const int world = data_parallel_ranks();
    if (world > 1) world_ = builder_.add_group({"world", Ranks::up_to(world)});
    if (shard_.count > 1) {
      const auto count = static_cast<std::size_t>(shard_.count);
      shard_group_ =
          shard_.count == world
              ? world_
              : builder_.add_group({"shard", Ranks::spaced(rank - shard_.index, 1, count)});
    }
    if (sharding_.replicas) {
      const auto count = static_cast<std::size_t>(strategy_.mesh.replicate);
      replicate_group_ =
          builder_.add_group({"replicate", Ranks::spaced(shard_.index, shard_.count, count)});
    }
  }

  // ---- storage that outlives the step

  BufferId keep(std::string name, MemoryCategory category, Bytes bytes, UnitId unit = {}) {
    return builder_.add_buffer(std::move(name), category, bytes, unit, persistent);
  }
  std::int64_t stored_elements(const Unit& unit, bool sharded) const {
    return sharded ? unit.shard_elements : unit.padded_elements;
  }

  void make_persistent_buffers() {
    const std::int64_t tokens = batch_shape().rows() * workload_.micro_batches;
    tokens_ = keep("tokens", MemoryCategory::inputs, bytes_of(tokens, Dtype::int32));
    targets_ = keep("targets", MemoryCategory::inputs, bytes_of(tokens, Dtype::int32));
    for (std::size_t u = 0; u < units_.size(); ++u) make_unit_storage(UnitId::of(u));
    // The mean loss, and a number that ranks sum with it (the request to stop).
    loss_ = keep("loss", MemoryCategory::temporaries, bytes_of(2, Dtype::float64));
    clip_ = keep("clip", MemoryCategory::temporaries, bytes_of(2, Dtype::float64));
  }

  void make_unit_storage(UnitId id) {
    const Unit& unit = unit_at(id);
    UnitState& state = state_of(id);
    state.parameters =
        keep(named("parameters", id), MemoryCategory::parameters,
             bytes_of(stored_elements(unit, sharding_.parameters), dtypes_.compute), id);
    for (const FlatSlot& slot : unit.slots)
      state.trainable = state.trainable || model_.parameters[slot.parameter.value].trainable;
    if (!state.trainable) return;
    const Bytes bytes =
        bytes_of(stored_elements(unit, sharding_.optimizer_states), dtypes_.updated);
    const auto category = MemoryCategory::optimizer_states;
    if (dtypes_.has_master()) state.master = keep(named("master", id), category, bytes, id);
    if (workload_.optimizer.kind == OptimizerKind::adamw) {
      state.first_state = keep(named("adam_m", id), category, bytes, id);
      state.second_state = keep(named("adam_v", id), category, bytes, id);
    } else if (workload_.optimizer.momentum != 0) {
      state.first_state = keep(named("momentum", id), category, bytes, id);
    }
  }

  void run_setup() {
    for (const Operator& op : graph_.setup) {
      const ValueId table = op.operands[0].value;
      step_values_[table.value] = keep(graph_.values[table.value].name, MemoryCategory::inputs,
                                       graph_.values[table.value].bytes);
      emit(op, {.unit = UnitId::of(0), .micro_batch = 0, .phase = Phase::init, .operators = {}});
    }
  }

  void zero_loss() {
    builder_.add_kernel({.name = "zero loss", .phase = Phase::zero_grad},
                        {.kind = KernelKind::fill_zero, .elements = 2},
                        {ScheduleBuilder::part(loss_, {.count = 2}, Access::write), {}});
  }

  // ---- forward and backward

  void run_visits(const std::vector<Visit>& visits) {
    const std::vector<bool> completes = completes_gradient(visits, units_.size());
    for (std::size_t i = 0; i < visits.size(); ++i) {
      const Visit& visit = visits[i];
      gather(visit);
      if (strategy_.prefetch && i + 1 < visits.size()) gather(visits[i + 1]);
      for (const Operator* op : visit.operators) emit(*op, visit);
      const bool ends = i + 1 == visits.size() || visits[i + 1].micro_batch != visit.micro_batch;
      if (ends) forget_values();
      if (!kept_after(visits, i)) state_of(visit.unit).unsharded = {};
      if (completes[i]) reduce_gradients(visit);
    }
  }

  void gather(const Visit& visit) {
    UnitState& state = state_of(visit.unit);
    if (!sharding_.parameters || state.unsharded) return;
    const Unit& unit = unit_at(visit.unit);
    state.unsharded =
        builder_.add_buffer(named("unsharded_parameters", visit.unit), MemoryCategory::parameters,
                            bytes_of(unit.padded_elements, dtypes_.compute), visit.unit);
    builder_.add_collective(label_of(visit, named("all_gather", visit.unit),
                                     OperationKind::all_gather, Stream::unshard),
                            gather_of(unit, shard_group_, dtypes_.compute),
                            {builder_.whole(state.parameters, Access::read),
                             builder_.whole(state.unsharded, Access::write)});
  }

  static Label label_of(const Visit& visit, std::string name,
                        OperationKind kind = OperationKind::compute,
                        Stream stream = Stream::compute) {
    return {.name = std::move(name),
            .kind = kind,
            .stream = stream,
            .phase = visit.phase,
            .micro_batch = visit.micro_batch,
            .unit = visit.unit};
  }

  void emit(const Operator& op, const Visit& visit) {
    Kernel kernel = op.kernel;
    settle_accumulation(op, kernel, visit);
    std::vector<Operand> operands;
    operands.reserve(op.operands.size() + 1);
    for (const GraphOperand& operand : op.operands) operands.push_back(place(operand, visit));
    add_workspace(kernel, operands);
    std::string name = op.name + " " + std::string(name_of(kernel.kind));
    if (op.recomputed) name += " again";
    builder_.add_kernel(label_of(visit, std::move(name)), kernel, operands);
  }

  void add_workspace(const Kernel& kernel, std::vector<Operand>& operands) {
    const Bytes bytes = target_.workspace ? target_.workspace(kernel) : Bytes{};
    if (bytes.count == 0) {
      operands.emplace_back();
      return;
    }
    const BufferId scratch = builder_.add_buffer("workspace", MemoryCategory::workspace, bytes);
    operands.push_back(builder_.whole(scratch, Access::read_write));
  }

  Operand place(const GraphOperand& operand, const Visit& visit) {
    if (!operand.value) return {};
    const Value& value = graph_.values[operand.value.value];
    const auto part = [&](BufferId buffer, Bytes base) {
      return Operand{buffer, base + operand.offset, operand.bytes, operand.access};
    };
    switch (value.role) {
      case ValueRole::input: {
        const BufferId buffer = value.name == "tokens" ? tokens_ : targets_;
        return part(buffer, value.bytes * visit.micro_batch);
      }
      case ValueRole::loss:
        return part(loss_, {});
      case ValueRole::table:
        return part(step_values_[operand.value.value], {});
      case ValueRole::parameter: {
        const UnitState& state = state_of(visit.unit);
        const BufferId storage = sharding_.parameters ? state.unsharded : state.parameters;
        return part(storage, offset_of(visit.unit, value.parameter, dtypes_.compute));
      }
      case ValueRole::parameter_gradient:
        return part(state_of(visit.unit).unsharded_gradients,
                    offset_of(visit.unit, value.parameter, dtypes_.gradients));
      case ValueRole::activation:
      case ValueRole::gradient:
        break;
    }
    BufferId& buffer = step_values_[operand.value.value];
    if (!buffer) {
      const auto category = value.role == ValueRole::activation ? MemoryCategory::activations
                                                                : MemoryCategory::temporaries;
      buffer = builder_.add_buffer(value.name, category, value.bytes, visit.unit);
    }
    return part(buffer, {});
  }

  /// A micro-batch's values are gone when its backward has ended; the next one gets buffers of its
  /// own.
  void forget_values() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].role == ValueRole::activation ||
          graph_.values[v].role == ValueRole::gradient)
        step_values_[v] = {};
  }

  std::size_t slot_index(UnitId unit, ParameterId parameter) const {
    const auto& slots = unit_at(unit).slots;
    const auto found =
        std::lower_bound(slots.begin(), slots.end(), parameter,
                         [](const FlatSlot& slot, ParameterId id) { return slot.parameter < id; });
    return static_cast<std::size_t>(found - slots.begin());
  }
  const FlatSlot& slot_of(UnitId unit, ParameterId parameter) const {
    return unit_at(unit).slots[slot_index(unit, parameter)];
  }

  Bytes offset_of(UnitId unit, ParameterId parameter, Dtype dtype) const {
    return bytes_of(slot_of(unit, parameter).offset, dtype);
  }

  // ---- gradients

  /// Decides whether a kernel adds to the parameter gradients it writes. Where it adds to one and
  /// would be the first to write another (GPT-2's tied embedding and its positions), the other is
  /// cleared first.
  void settle_accumulation(const Operator& op, Kernel& kernel, const Visit& visit) {
    std::vector<ParameterId> fresh;
    bool adds = false;
    for (const GraphOperand& operand : op.operands) {
      if (!operand.value ||
          graph_.values[operand.value.value].role != ValueRole::parameter_gradient)
        continue;
      start_gradients(visit);
      const ParameterId parameter = graph_.values[operand.value.value].parameter;
      std::vector<bool>& written = state_of(visit.unit).written;
      const std::size_t slot = slot_index(visit.unit, parameter);
      if (written[slot])
        adds = true;
      else
        fresh.push_back(parameter);
      written[slot] = true;
    }
    kernel.accumulate = adds;
    if (!adds) return;
    for (ParameterId parameter : fresh) clear_gradient(visit, parameter);
  }

  void clear_gradient(const Visit& visit, ParameterId parameter) {
    const std::int64_t elements = model_.parameters[parameter.value].elements();
    builder_.add_kernel(
        label_of(visit, model_.parameters[parameter.value].name + " clear gradient"),
        {.kind = KernelKind::fill_zero, .dtype = dtypes_.gradients, .elements = elements},
        {ScheduleBuilder::part(state_of(visit.unit).unsharded_gradients,
                               {dtypes_.gradients, slot_of(visit.unit, parameter).offset, elements},
                               Access::write),
         {}});
  }

  /// The storage that the backward writes a unit's gradient to. While it is written at most one
  /// other unit's sharded gradient is still being reduced, so that besides the root's no more than
  /// two unsharded gradients exist at once.
  void start_gradients(const Visit& visit) {
    UnitState& state = state_of(visit.unit);
    if (state.unsharded_gradients) return;
    const Unit& unit = unit_at(visit.unit);
    state.written.assign(unit.slots.size(), false);
    if (!sharding_.gradients) {
      state.gradients =
          builder_.add_buffer(named("gradients", visit.unit), MemoryCategory::gradients,
                              bytes_of(unit.padded_elements, dtypes_.gradients), visit.unit);
      state.unsharded_gradients = state.gradients;
      return;
    }
    while (pending_.size() > 1) finish_oldest_reduction();
    state.unsharded_gradients =
        builder_.add_buffer(named("unsharded_gradients", visit.unit), MemoryCategory::gradients,
                            bytes_of(unit.padded_elements, dtypes_.gradients), visit.unit);
  }

  void reduce_gradients(const Visit& visit) {
    UnitState& state = state_of(visit.unit);
    const bool last = visit.micro_batch + 1 == workload_.micro_batches;
    if (!state.unsharded_gradients || !(last || strategy_.reduce_every_micro_batch)) return;
    const Unit& unit = unit_at(visit.unit);
    for (std::size_t slot = 0; slot < unit.slots.size(); ++slot)
      if (!state.written[slot] && model_.parameters[unit.slots[slot].parameter.value].trainable)
        clear_gradient(visit, unit.slots[slot].parameter);
    if (sharding_.gradients)
      reduce_scatter_gradients(visit);
    else
      reduce_whole_gradients(visit);
  }

  /// ZeRO-1 sums the part whose optimizer states this rank holds, in place; without sharding all of
  /// it.
  void reduce_whole_gradients(const Visit& visit) {
    UnitState& state = state_of(visit.unit);
    const Unit& unit = unit_at(visit.unit);
    if (!world_) return;
    if (sharding_.optimizer_states) {
      builder_.add_collective(
          label_of(visit, named("reduce_scatter", visit.unit), OperationKind::reduce_scatter,
                   Stream::reduce),
          reduction(shard_group_, unit.padded_elements, unit.shard_elements),
          {builder_.whole(state.gradients, Access::read),
           own_part(state.gradients, unit, shard_.index, dtypes_.gradients, Access::write)});
    } else {
      builder_.add_collective(label_of(visit, named("all_reduce", visit.unit),
                                       OperationKind::all_reduce, Stream::reduce),
                              reduction(world_, unit.padded_elements, unit.padded_elements),
                              {builder_.whole(state.gradients, Access::read_write)});
    }
  }

  Collective reduction(GroupId group, std::int64_t in, std::int64_t out) const {
    return {group, in, out, dtypes_.gradients};
  }

  void reduce_scatter_gradients(const Visit& visit) {
    UnitState& state = state_of(visit.unit);
    const Unit& unit = unit_at(visit.unit);
    const BufferId unsharded = std::exchange(state.unsharded_gradients, {});
    const bool first = !state.gradients;
    const BufferId shard = builder_.add_buffer(
        named(first ? "gradients" : "reduced_gradients", visit.unit), MemoryCategory::gradients,
        bytes_of(unit.shard_elements, dtypes_.gradients), visit.unit);
    if (first) state.gradients = shard;
    OperationId last = builder_.add_collective(
        label_of(visit, named("reduce_scatter", visit.unit), OperationKind::reduce_scatter,
                 Stream::reduce),
        reduction(shard_group_, unit.padded_elements, unit.shard_elements),
        {builder_.whole(unsharded, Access::read), builder_.whole(shard, Access::write)});
    if (sharding_.replicas) {
      last = builder_.add_collective(
          label_of(visit, named("all_reduce", visit.unit), OperationKind::all_reduce,
                   Stream::reduce),
          reduction(replicate_group_, unit.shard_elements, unit.shard_elements),
          {builder_.whole(shard, Access::read_write)});
    }
    pending_.push_back({visit.unit, last, first ? BufferId{} : shard, visit.micro_batch});
  }

  /// The compute stream waits for the oldest reduction; its unsharded gradient is free from here
  /// on.
  void finish_oldest_reduction() {
    const Pending done = pending_.front();
    pending_.pop_front();
    const Visit at{done.unit, done.micro_batch, Phase::backward, {}};
    builder_.add_wait(label_of(at, named("wait", done.unit), OperationKind::host), {done.last});
    if (!done.to_add) return;
    const std::int64_t elements = unit_at(done.unit).shard_elements;
    builder_.add_kernel(label_of(at, named("add", done.unit)),
                        {.kind = KernelKind::add, .dtype = dtypes_.gradients, .elements = elements},
                        {builder_.whole(done.to_add, Access::read),
                         builder_.whole(state_of(done.unit).gradients, Access::read_write),
                         {}});
  }

  void reduce_loss() {
    if (!world_) return;
    builder_.add_collective({.name = "all_reduce:loss",
                             .kind = OperationKind::all_reduce,
                             .stream = Stream::reduce,
                             .phase = Phase::other},
                            {world_, 2, 2, Dtype::float64},
                            {builder_.whole(loss_, Access::read_write)});
  }

  const Model& model_;
  Strategy strategy_;
  Workload workload_;
  const Target& target_;
  Sharding sharding_;
  PrecisionDtypes dtypes_;
  ShardPosition shard_;
  UnitPlan plan_;
  OperatorGraph graph_;
  ScheduleBuilder builder_;
  std::vector<UnitState> units_;
  std::vector<BufferId> step_values_;  // by graph value: its buffer in this micro-batch
  std::deque<Pending> pending_;
  GroupId world_, shard_group_, replicate_group_;
  BufferId tokens_, targets_, loss_, clip_;
};

void check_workload(const Workload& workload) {
  const auto positive = [](std::int64_t n, const char* option) {
    if (n > 0) return;
    throw Error({.where = option,
                 .what = "must be positive, got " + std::to_string(n),
                 .way_out = "give at least 1"});
  };
  positive(workload.batch, "--batch");
  positive(workload.length, "--seq");
  positive(workload.micro_batches, "--accumulate");
  constexpr std::int64_t most_rows = std::int64_t{1} << 31;
  if (workload.batch > most_rows / workload.length || workload.micro_batches > 4096) {
    throw Error({.where = "--batch",
                 .what = std::to_string(workload.batch) + " sequences of " +
                         std::to_string(workload.length) + " tokens in " +
                         std::to_string(workload.micro_batches) +
                         " micro-batches are more than one step can hold",
                 .way_out = "give at most 2^31 tokens a micro-batch and 4096 micro-batches"});
  }
}

}  // namespace

Schedule native_schedule(const Model& model, const Strategy& strategy, const Workload& workload,
                         int rank, const Target& target) {
  check_workload(workload);
  if (rank < 0 || rank >= strategy.mesh.world()) {
    throw Error({.where = "--rank",
                 .what = "rank " + std::to_string(rank) + " is not in a world of " +
                         std::to_string(strategy.mesh.world()),
                 .way_out = "give 0 to " + std::to_string(strategy.mesh.world() - 1)});
  }
  return NativeScheduler(model, strategy, workload, rank, target).build();
}

}  // namespace shardscope

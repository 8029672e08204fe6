#include "core/native/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardscope {
namespace {

constexpr int no_group = -1;

class OptimizerPass {
 public:
  OptimizerPass(const NativeStep& step, const NativeStorage& storage, ScheduleBuilder& builder)
      : step_(step),
        storage_(storage),
        builder_(builder),
        group_of_(groups_of_parameters(step.model, step.workload.optimizer)) {}

  void add() {
    const std::vector<UnitId> order = units_in_reduction_order();
    if (order.empty() && !step_.is_pipelined()) return;
    const Pieces pieces = count_pieces(step_.plan);
    const NormPieces norm = make_norm(pieces);
    if (norm.by_rank == 0) return;
    for (UnitId id : order) add_sum_of_squares(id, pieces, part_of(norm, Access::write));
    if (norm.shards > 1)
      gather("all_gather:gradient_norm_pieces", step_.groups.shard, part_of(norm, Access::read),
             stage_of(norm, Access::write));
    if (norm.stages > 1)
      gather("all_gather:gradient_norm_pieces of stages", step_.groups.pipeline,
             stage_of(norm, Access::read), builder_.whole(norm.storage, Access::write));
    add_clip_coefficient(norm);
    if (step_.updates_on_host())
      builder_.add_copy({.name = "copy_to_host:clip", .phase = Phase::optimizer},
                        builder_.whole(storage_.clip, Access::read),
                        builder_.whole(storage_.host_clip, Access::write));
    for (auto id = order.rbegin(); id != order.rend(); ++id) update(*id);
  }

 private:
  const Unit& unit_at(UnitId id) const { return step_.plan.units[id.value]; }

  /// A rank's part of a unit's flat storage for the optimizer: its shard, or all of it.
  struct Part {
    std::int64_t first = 0;
    std::int64_t elements = 0;
  };
  Part optimizer_part(const Unit& unit) const {
    if (!step_.sharding.optimizer_states) return {0, unit.padded_elements};
    return {step_.shard.index * unit.shard_elements, unit.shard_elements};
  }
  std::int64_t optimizer_elements(const Unit& unit) const {
    return step_.sharding.optimizer_states ? unit.shard_elements : unit.padded_elements;
  }

  /// Pieces of the gradient norm: those of a pipeline's stages one after the other, a stage's of
  /// its ranks one after the other, a rank's unit after unit.
  struct Pieces {
    std::int64_t by_rank = 0;
    std::vector<std::int64_t> first_of_unit;  ///< within a rank's
  };
  Pieces count_pieces(const UnitPlan& plan) const {
    Pieces pieces;
    for (const Unit& unit : plan.units) {
      pieces.first_of_unit.push_back(pieces.by_rank);
      if (is_trainable(unit)) pieces.by_rank += optimizer_elements(unit) / piece_elements;
    }
    return pieces;
  }
  bool is_trainable(const Unit& unit) const {
    return !unit.slots.empty() &&
           step_.model.parameters[unit.slots.front().parameter.value].trainable;
  }

  /// Where the pieces of all ranks come together.
  struct NormPieces {
    BufferId storage;
    std::int64_t by_rank = 0;  ///< room for the pieces of the rank that has most
    int shards = 1, shard = 0;
    int stages = 1, stage = 0;
    std::int64_t by_stage() const { return by_rank * shards; }
  };
  NormPieces make_norm(const Pieces& pieces) {
    NormPieces norm{.by_rank = pieces.by_rank};
    if (step_.sharding.optimizer_states) {
      norm.shards = step_.shard.count;
      norm.shard = step_.shard.index;
    }
    for (const UnitPlan& plan : step_.pipeline.plans)
      norm.by_rank = std::max(norm.by_rank, count_pieces(plan).by_rank);
    if (step_.is_pipelined()) {
      norm.stages = step_.strategy.mesh.pipeline;
      norm.stage = step_.pipeline_rank;
    }
    norm.storage = builder_.add_buffer("gradient_norm_pieces", MemoryCategory::temporaries,
                                       bytes_of(norm.by_stage() * norm.stages, Dtype::float64));
    return norm;
  }
  static Operand part_of(const NormPieces& norm, Access access) {
    const std::int64_t first = norm.by_stage() * norm.stage + norm.by_rank * norm.shard;
    return ScheduleBuilder::part(norm.storage, {Dtype::float64, first, norm.by_rank}, access);
  }
  static Operand stage_of(const NormPieces& norm, Access access) {
    return ScheduleBuilder::part(
        norm.storage, {Dtype::float64, norm.by_stage() * norm.stage, norm.by_stage()}, access);
  }
  void gather(std::string name, GroupId group, const Operand& in, const Operand& out) {
    const auto elements = [](const Operand& operand) {
      return operand.bytes.count / size_of(Dtype::float64).count;
    };
    builder_.add_collective({.name = std::move(name),
                             .kind = OperationKind::all_gather,
                             .stream = Stream::unshard,
                             .phase = Phase::clip},
                            {group, elements(in), elements(out), Dtype::float64}, {in, out});
  }

  /// The gradient operand and the offset of this rank's part in it.
  Operand gradient_operand(UnitId id, Access access) {
    const Unit& unit = unit_at(id);
    const BufferId gradients = storage_.units[id.value].gradients;
    if (step_.sharding.gradients || !step_.sharding.optimizer_states)
      return builder_.whole(gradients, access);
    return own_part(gradients, unit, step_.shard.index, step_.dtypes.gradients, access);
  }

  static std::int64_t elements_of(const std::vector<Slice>& slices) {
    std::int64_t sum = 0;
    for (const Slice& slice : slices) sum += slice.elements;
    return sum;
  }

  std::vector<UnitId> units_in_reduction_order() const {
    std::vector<UnitId> order;
    for (std::size_t u = storage_.units.size(); u-- > 0;)
      if (storage_.units[u].trainable && storage_.units[u].gradients)
        order.push_back(UnitId::of(u));
    return order;
  }

  void add_sum_of_squares(UnitId id, const Pieces& pieces, const Operand& own) {
    const Part part = optimizer_part(unit_at(id));
    const auto slices = slices_in(step_.model, unit_at(id), part.first, part.elements,
                                  pieces.first_of_unit[id.value]);
    builder_.add_kernel(
        {.name = named("sum_of_squares", unit_at(id)), .phase = Phase::clip, .unit = id},
        SumOfSquaresKernel{.gradient_dtype = step_.dtypes.gradients,
                           .elements = elements_of(slices)},
        {gradient_operand(id, Access::read), own, {}}, slices);
  }

  /// All parameters' pieces in the order of the model, wherever the sharding put them: so that the
  /// sum is the same everywhere.
  void add_clip_coefficient(const NormPieces& norm) {
    std::vector<Slice> slices;
    if (!step_.is_pipelined()) add_slices(step_.plan, {}, norm, 0, slices);
    for (std::size_t stage = 0; stage < step_.pipeline.plans.size(); ++stage) {
      const bool twice = step_.pipeline.parts[stage].keeps_embedding_twice;
      add_slices(step_.pipeline.plans[stage],
                 twice ? step_.model.decoder->token_embedding : ParameterId{}, norm,
                 norm.by_stage() * static_cast<std::int64_t>(stage), slices);
    }
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.parameter < b.parameter; });
    builder_.add_kernel({.name = "clip_coefficient", .phase = Phase::clip},
                        ClipCoefficientKernel{.has_clip = step_.workload.clip > 0,
                                              .pieces = norm.by_stage() * norm.stages,
                                              .clip = step_.workload.clip},
                        {builder_.whole(norm.storage, Access::read),
                         builder_.whole(storage_.clip, Access::write),
                         {}},
                        slices);
  }

  /// Of one stage, whose pieces begin at `first`; `counted_elsewhere` is on another stage, too.
  void add_slices(const UnitPlan& plan, ParameterId counted_elsewhere, const NormPieces& norm,
                  std::int64_t first, std::vector<Slice>& slices) const {
    const Pieces pieces = count_pieces(plan);
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      const Unit& unit = plan.units[u];
      if (!is_trainable(unit)) continue;
      for (Slice slice : slices_in(step_.model, unit, 0, unit.padded_elements, 0)) {
        if (slice.parameter == counted_elsewhere) continue;
        slice.piece = first + pieces.first_of_unit[u];
        slice.piece_run = optimizer_elements(unit) / piece_elements;
        slice.piece_stride = norm.by_rank;
        slices.push_back(slice);
      }
    }
  }

  /// This rank's part of the parameters that are computed with.
  Operand parameter_operand(UnitId id, Access access) {
    const Unit& unit = unit_at(id);
    const BufferId parameters = storage_.units[id.value].parameters;
    if (step_.sharding.parameters || !step_.sharding.optimizer_states)
      return builder_.whole(parameters, access);
    return own_part(parameters, unit, step_.shard.index, step_.dtypes.compute, access);
  }

  Kernel update_kernel(std::int64_t elements, const ParameterGroup& group) const {
    const Optimizer& optimizer = step_.workload.optimizer;
    if (optimizer.kind == OptimizerKind::adamw)
      return AdamWKernel{.dtype = step_.dtypes.updated,
                         .gradient_dtype = step_.dtypes.gradients,
                         .has_clip = step_.workload.clip > 0,
                         .has_copy = step_.dtypes.has_master(),
                         .elements = elements,
                         .epsilon = optimizer.epsilon,
                         .beta1 = optimizer.beta1,
                         .beta2 = optimizer.beta2,
                         .weight_decay = group.weight_decay.value_or(optimizer.weight_decay),
                         .rate = group.rate};
    return SgdKernel{.dtype = step_.dtypes.updated,
                     .gradient_dtype = step_.dtypes.gradients,
                     .nesterov = optimizer.nesterov,
                     .has_clip = step_.workload.clip > 0,
                     .has_copy = step_.dtypes.has_master(),
                     .elements = elements,
                     .momentum = optimizer.momentum,
                     .weight_decay = group.weight_decay.value_or(optimizer.weight_decay),
                     .rate = group.rate};
  }

  void update(UnitId id) {
    const Part part = optimizer_part(unit_at(id));
    const auto slices = slices_in(step_.model, unit_at(id), part.first, part.elements, 0);
    for (const int group : groups_in(unit_at(id)))
      update(id, group, slices_of_group(slices, group));
    if (step_.strategy.offload == Offload::optimizer) copy_updated(id);
    if (step_.sharding.optimizer_states && !step_.sharding.parameters) gather_updated(id);
  }

  /// Where an update in mixed precision leaves what is computed with.
  Operand updated_copy(UnitId id) {
    const BufferId on_host = storage_.units[id.value].host_parameters;
    return on_host ? builder_.whole(on_host, Access::write) : parameter_operand(id, Access::write);
  }

  /// What the host has updated goes to the device.
  void copy_updated(UnitId id) {
    const UnitState& state = storage_.units[id.value];
    builder_.add_copy(
        {.name = named("copy_to_device", unit_at(id)), .phase = Phase::optimizer, .unit = id},
        builder_.whole(state.host_parameters ? state.host_parameters : state.master, Access::read),
        parameter_operand(id, Access::write));
  }

  const ParameterGroup& group_at(int group) const {
    return step_.workload.optimizer.groups[static_cast<std::size_t>(group)];
  }

  /// Of all its parameters, whoever has them: so all ranks issue the same operations.
  std::set<int> groups_in(const Unit& unit) const {
    std::set<int> groups;
    for (const FlatSlot& slot : unit.slots) groups.insert(group_of_[slot.parameter.value]);
    return groups;
  }

  std::vector<Slice> slices_of_group(const std::vector<Slice>& slices, int group) const {
    std::vector<Slice> own;
    for (const Slice& slice : slices) {
      if (group_of_[slice.parameter.value] != group) continue;
      own.push_back(slice);
      if (group != no_group && group_at(group).weight_decay) own.back().decay = true;
    }
    return own;
  }

  void update(UnitId id, int group, const std::vector<Slice>& slices) {
    const Unit& unit = unit_at(id);
    const UnitState& state = storage_.units[id.value];
    const bool on_host = step_.updates_on_host();
    const bool has_copy = step_.dtypes.has_master();
    const Kernel kernel =
        update_kernel(elements_of(slices), group == no_group ? ParameterGroup{} : group_at(group));
    std::vector<Operand> operands{
        builder_.whole(on_host ? storage_.host_clip : storage_.clip, Access::read),
        on_host ? builder_.whole(state.host_gradients, Access::read)
                : gradient_operand(id, Access::read),
        state.master ? builder_.whole(state.master, Access::read_write)
                     : parameter_operand(id, Access::read_write)};
    const auto add_state = [&](BufferId buffer) {
      operands.push_back(buffer ? builder_.whole(buffer, Access::read_write) : Operand{});
    };
    add_state(state.first_state);
    if (kernel.kind() == KernelKind::adamw) add_state(state.second_state);
    operands.push_back(has_copy ? updated_copy(id) : Operand{});
    operands.emplace_back();
    const ScheduleBuilder::Label label{
        .name = named(name_of(kernel.kind()), unit) +
                (group == no_group ? "" : fmt::format(" (group {})", group)),
        .kind = OperationKind::optimizer,
        .stream = on_host ? Stream::host : Stream::compute,
        .phase = Phase::optimizer,
        .unit = id};
    builder_.add_kernel(label, kernel, operands, slices);
  }

  /// ZeRO-1 and ZeRO-2 keep whole parameters: each rank's updated part goes to all.
  void gather_updated(UnitId id) {
    const Unit& unit = unit_at(id);
    const BufferId parameters = storage_.units[id.value].parameters;
    builder_.add_collective(
        {.name = named("all_gather", unit),
         .kind = OperationKind::all_gather,
         .stream = Stream::unshard,
         .phase = Phase::optimizer,
         .unit = id},
        gather_of(unit, step_.groups.shard, step_.dtypes.compute),
        {own_part(parameters, unit, step_.shard.index, step_.dtypes.compute, Access::read),
         builder_.whole(parameters, Access::write)});
  }

  const NativeStep& step_;
  const NativeStorage& storage_;
  ScheduleBuilder& builder_;
  std::vector<int> group_of_;  ///< by parameter
};

}  // namespace

std::vector<int> groups_of_parameters(const Model& model, const Optimizer& optimizer) {
  std::vector<std::regex> patterns;
  for (const ParameterGroup& group : optimizer.groups) patterns.emplace_back(group.pattern);
  std::vector<int> group_of(model.parameters.size(), no_group);
  for (std::size_t p = 0; p < group_of.size(); ++p) {
    const auto found = std::ranges::find_if(patterns, [&](const std::regex& pattern) {
      return std::regex_search(model.parameters[p].name, pattern);
    });
    if (found != patterns.end()) group_of[p] = static_cast<int>(found - patterns.begin());
  }
  return group_of;
}

void add_optimizer(const NativeStep& step, const NativeStorage& storage, ScheduleBuilder& builder) {
  OptimizerPass(step, storage, builder).add();
}

}  // namespace shardscope

#include "core/native/optimizer.h"

#include <algorithm>
#include <string>
#include <vector>

namespace shardscope {
namespace {

class OptimizerPass {
 public:
  OptimizerPass(const NativeStep& step, const NativeStorage& storage, ScheduleBuilder& builder)
      : step_(step), storage_(storage), builder_(builder) {}

  void add() {
    const std::vector<UnitId> order = units_in_reduction_order();
    if (order.empty()) return;
    const Pieces pieces = count_pieces();
    const int parts = step_.sharding.optimizer_states ? step_.shard.count : 1;
    const int part = step_.sharding.optimizer_states ? step_.shard.index : 0;
    const BufferId storage =
        builder_.add_buffer("gradient_norm_pieces", MemoryCategory::temporaries,
                            bytes_of(pieces.by_rank * parts, Dtype::float64));
    const Operand own{storage, bytes_of(pieces.by_rank * part, Dtype::float64),
                      bytes_of(pieces.by_rank, Dtype::float64), Access::write};
    for (UnitId id : order) add_sum_of_squares(id, pieces, own);
    if (parts > 1) {
      Operand input = own;
      input.access = Access::read;
      builder_.add_collective(
          {.name = "all_gather:gradient_norm_pieces",
           .kind = OperationKind::all_gather,
           .stream = Stream::unshard,
           .phase = Phase::clip},
          {step_.groups.shard, pieces.by_rank, pieces.by_rank * parts, Dtype::float64},
          {input, builder_.whole(storage, Access::write)});
    }
    add_clip_coefficient(pieces, storage, parts);
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

  /// Pieces of the gradient norm: all ranks' pieces one rank after the other, a rank's unit after
  /// unit.
  struct Pieces {
    std::int64_t by_rank = 0;
    std::vector<std::int64_t> first_of_unit;  ///< within a rank's
  };
  Pieces count_pieces() const {
    Pieces pieces;
    for (std::size_t u = 0; u < storage_.units.size(); ++u) {
      pieces.first_of_unit.push_back(pieces.by_rank);
      if (storage_.units[u].trainable)
        pieces.by_rank += optimizer_elements(step_.plan.units[u]) / piece_elements;
    }
    return pieces;
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
  void add_clip_coefficient(const Pieces& pieces, BufferId storage, int parts) {
    std::vector<Slice> slices;
    for (std::size_t u = 0; u < storage_.units.size(); ++u) {
      if (!storage_.units[u].trainable) continue;
      const Unit& unit = step_.plan.units[u];
      for (Slice slice : slices_in(step_.model, unit, 0, unit.padded_elements, 0)) {
        slice.piece = pieces.first_of_unit[u];
        slice.piece_run = optimizer_elements(unit) / piece_elements;
        slice.piece_stride = pieces.by_rank;
        slices.push_back(slice);
      }
    }
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.parameter < b.parameter; });
    builder_.add_kernel(
        {.name = "clip_coefficient", .phase = Phase::clip},
        ClipCoefficientKernel{.has_clip = step_.workload.clip > 0,
                              .pieces = pieces.by_rank * parts,
                              .clip = step_.workload.clip},
        {builder_.whole(storage, Access::read), builder_.whole(storage_.clip, Access::write), {}},
        slices);
  }

  /// This rank's part of the parameters that are computed with.
  Operand parameter_operand(UnitId id, Access access) {
    const Unit& unit = unit_at(id);
    const BufferId parameters = storage_.units[id.value].parameters;
    if (step_.sharding.parameters || !step_.sharding.optimizer_states)
      return builder_.whole(parameters, access);
    return own_part(parameters, unit, step_.shard.index, step_.dtypes.compute, access);
  }

  Kernel update_kernel(std::int64_t elements) const {
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
                         .weight_decay = optimizer.weight_decay};
    return SgdKernel{.dtype = step_.dtypes.updated,
                     .gradient_dtype = step_.dtypes.gradients,
                     .nesterov = optimizer.nesterov,
                     .has_clip = step_.workload.clip > 0,
                     .has_copy = step_.dtypes.has_master(),
                     .elements = elements,
                     .momentum = optimizer.momentum,
                     .weight_decay = optimizer.weight_decay};
  }

  void update(UnitId id) {
    const Unit& unit = unit_at(id);
    const UnitState& state = storage_.units[id.value];
    const Part part = optimizer_part(unit);
    const auto slices = slices_in(step_.model, unit, part.first, part.elements, 0);
    const bool has_master = step_.dtypes.has_master();
    const Kernel kernel = update_kernel(elements_of(slices));
    std::vector<Operand> operands{builder_.whole(storage_.clip, Access::read),
                                  gradient_operand(id, Access::read),
                                  has_master ? builder_.whole(state.master, Access::read_write)
                                             : parameter_operand(id, Access::read_write)};
    const auto add_state = [&](BufferId buffer) {
      operands.push_back(buffer ? builder_.whole(buffer, Access::read_write) : Operand{});
    };
    add_state(state.first_state);
    if (kernel.kind() == KernelKind::adamw) add_state(state.second_state);
    operands.push_back(has_master ? parameter_operand(id, Access::write) : Operand{});
    operands.emplace_back();
    const ScheduleBuilder::Label label{.name = named(name_of(kernel.kind()), unit),
                                       .kind = OperationKind::optimizer,
                                       .phase = Phase::optimizer,
                                       .unit = id};
    builder_.add_kernel(label, kernel, operands, slices);
    if (step_.sharding.optimizer_states && !step_.sharding.parameters) gather_updated(id);
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
};

}  // namespace

void add_optimizer(const NativeStep& step, const NativeStorage& storage, ScheduleBuilder& builder) {
  OptimizerPass(step, storage, builder).add();
}

}  // namespace shardscope

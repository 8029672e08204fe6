#include "core/native/communication_emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace shardscope {

void CommunicationEmitter::gather(const StepPlace& place) {
  gather_unit(place);
  const UnitId frozen = step_.plan.frozen_beside[place.unit.value];
  if (frozen) gather_unit({frozen, place.micro_batch, place.phase});
}

void CommunicationEmitter::release(UnitId unit) {
  state(unit).unsharded = {};
  const UnitId frozen = step_.plan.frozen_beside[unit.value];
  if (frozen) state(frozen).unsharded = {};
}

void CommunicationEmitter::gather_unit(const StepPlace& place) {
  const Unit& unit = step_.unit(place.unit);
  UnitState& unit_state = state(place.unit);
  unit_state.unsharded =
      builder_.add_buffer(named("unsharded_parameters", unit), MemoryCategory::parameters,
                          bytes_of(unit.padded_elements, step_.dtypes.compute), place.unit);
  BufferId shard = unit_state.parameters;
  if (step_.strategy.offload == Offload::all) {
    if (step_.groups.shard)
      shard =
          builder_.add_buffer(named("parameters on the device", unit), MemoryCategory::parameters,
                              bytes_of(unit.shard_elements, step_.dtypes.compute), place.unit);
    builder_.add_copy(
        label_at(place, named("copy_to_device", unit)),
        builder_.whole(unit_state.parameters, Access::read),
        builder_.whole(step_.groups.shard ? shard : unit_state.unsharded, Access::write));
  }
  if (!step_.groups.shard) return;
  builder_.add_collective(
      label_at(place, named("all_gather", unit), OperationKind::all_gather, Stream::unshard),
      gather_of(unit, step_.groups.shard, step_.dtypes.compute),
      {builder_.whole(shard, Access::read), builder_.whole(unit_state.unsharded, Access::write)});
}

void CommunicationEmitter::begin_gradients(const StepPlace& place) {
  const Unit& unit = step_.unit(place.unit);
  UnitState& unit_state = state(place.unit);
  unit_state.written.assign(unit.slots.size(), false);
  unit_state.unsharded_gradients = builder_.add_buffer(
      named(step_.sharding.gradients ? "unsharded_gradients" : "gradients", unit),
      MemoryCategory::gradients, bytes_of(unit.padded_elements, step_.dtypes.gradients),
      place.unit);
  if (!step_.sharding.gradients) unit_state.gradients = unit_state.unsharded_gradients;
}

void CommunicationEmitter::reduce(const StepPlace& place) {
  sum_shared_embedding(place);
  if (step_.sharding.gradients)
    reduce_scatter_to_shard(place);
  else if (step_.groups.world)
    reduce_in_place(place);
  if (step_.updates_on_host()) copy_gradients_to_host(place);
}

/// As soon as they are reduced, while the backward goes on.
void CommunicationEmitter::copy_gradients_to_host(const StepPlace& place) {
  const Unit& unit = step_.unit(place.unit);
  const UnitState& unit_state = state(place.unit);
  const bool is_part = step_.sharding.optimizer_states && !step_.sharding.gradients;
  builder_.add_copy(label_at(place, named("copy_to_host", unit)),
                    is_part ? own_part(unit_state.gradients, unit, step_.shard.index,
                                       step_.dtypes.gradients, Access::read)
                            : builder_.whole(unit_state.gradients, Access::read),
                    builder_.whole(unit_state.host_gradients, Access::write));
}

OperationId CommunicationEmitter::reduce(const StepPlace& place, OperationKind kind,
                                         const Collective& collective,
                                         const std::vector<Operand>& operands) {
  return builder_.add_collective(
      label_at(place, named(name_of(kind), step_.unit(place.unit)), kind, Stream::reduce),
      collective, operands);
}

/// ZeRO-1 sums the part whose optimizer states this rank holds; without sharding all of it.
void CommunicationEmitter::reduce_in_place(const StepPlace& place) {
  const Unit& unit = step_.unit(place.unit);
  const BufferId gradients = state(place.unit).gradients;
  const Dtype dtype = step_.dtypes.gradients;
  if (step_.sharding.optimizer_states) {
    reduce(place, OperationKind::reduce_scatter,
           reduction(step_.groups.shard, unit.padded_elements, unit.shard_elements, dtype),
           {builder_.whole(gradients, Access::read),
            own_part(gradients, unit, step_.shard.index, dtype, Access::write)});
  } else {
    reduce(place, OperationKind::all_reduce,
           reduction(step_.groups.world, unit.padded_elements, unit.padded_elements, dtype),
           {builder_.whole(gradients, Access::read_write)});
  }
}

void CommunicationEmitter::reduce_scatter_to_shard(const StepPlace& place) {
  const Unit& unit = step_.unit(place.unit);
  UnitState& unit_state = state(place.unit);
  const Dtype dtype = step_.dtypes.gradients;
  const BufferId unsharded = std::exchange(unit_state.unsharded_gradients, {});
  const bool first = !unit_state.gradients;
  const BufferId shard = builder_.add_buffer(named(first ? "gradients" : "reduced_gradients", unit),
                                             MemoryCategory::gradients,
                                             bytes_of(unit.shard_elements, dtype), place.unit);
  if (first) unit_state.gradients = shard;
  OperationId last =
      reduce(place, OperationKind::reduce_scatter,
             reduction(step_.groups.shard, unit.padded_elements, unit.shard_elements, dtype),
             {builder_.whole(unsharded, Access::read), builder_.whole(shard, Access::write)});
  if (step_.sharding.replicas)
    last =
        reduce(place, OperationKind::all_reduce,
               reduction(step_.groups.replicate, unit.shard_elements, unit.shard_elements, dtype),
               {builder_.whole(shard, Access::read_write)});
  in_flight_.push_back({last, first ? BufferId{} : shard});
}

void CommunicationEmitter::await_reduction(const StepPlace& place) {
  const InFlight done = in_flight_.front();
  in_flight_.pop_front();
  const Unit& unit = step_.unit(place.unit);
  builder_.add_wait(label_at(place, named("wait", unit), OperationKind::host), {done.last});
  if (!done.to_add) return;
  builder_.add_kernel(label_at(place, named("add", unit)),
                      AddKernel{.dtype = step_.dtypes.gradients, .elements = unit.shard_elements},
                      {builder_.whole(done.to_add, Access::read),
                       builder_.whole(state(place.unit).gradients, Access::read_write),
                       {}});
}

/// A tied embedding is on the first and on the last stage; each has the part of its gradient that
/// comes of its own use.
void CommunicationEmitter::sum_shared_embedding(const StepPlace& place) {
  if (!step_.is_pipelined() || !step_.part().shares_embedding) return;
  const ParameterId shared = step_.model.decoder->token_embedding;
  const UnitId unit = step_.plan.unit_of_parameter[shared.value];
  if (unit != place.unit || !step_.model.parameters[shared.value].trainable) return;
  const FlatSlot& slot = slot_of(step_.unit(unit), shared);
  const Dtype dtype = step_.dtypes.gradients;
  builder_.add_collective(
      label_at(place, "all_reduce:" + step_.model.parameters[shared.value].name,
               OperationKind::all_reduce, Stream::reduce),
      reduction(step_.groups.ends, slot.elements, slot.elements, dtype),
      {ScheduleBuilder::part(state(unit).unsharded_gradients, {dtype, slot.offset, slot.elements},
                             Access::read_write)});
}

GroupId CommunicationEmitter::group_of_stages(int stage, int other) const {
  const std::vector<int>& rank_of = step_.part().rank_of_stage;
  const auto [low, high] = std::minmax(
      {rank_of[static_cast<std::size_t>(stage)], rank_of[static_cast<std::size_t>(other)]});
  if (high - low > 1) return step_.groups.ends;
  return low % 2 == 0 ? step_.groups.even_pair : step_.groups.odd_pair;
}

void CommunicationEmitter::transfer(const StageTransfer& transfer, const StepPlace& place,
                                    BufferId buffer) {
  const int stage = step_.graph.segments[transfer.segment].stage.stage;
  const int other = peer_stage({transfer.kind, stage, transfer.micro_batch});
  const bool sends = is_send(transfer.kind);
  const Dtype dtype = step_.dtypes.compute;
  const std::int64_t elements = builder_.schedule().at(buffer).bytes.count / size_of(dtype).count;
  const OperationKind kind = sends ? OperationKind::send : OperationKind::receive;
  ScheduleBuilder::Label label =
      label_at(place,
               fmt::format("{}:{} {} stage {}", name_of(kind),
                           is_of_gradient(transfer.kind) ? "gradient" : "activation",
                           sends ? "to" : "from", other),
               kind, Stream::send_receive);
  label.phase = is_of_gradient(transfer.kind) ? Phase::backward : Phase::forward;
  label.unit = {};
  builder_.add_collective(
      label, {group_of_stages(stage, other), sends ? elements : 0, sends ? 0 : elements, dtype},
      {builder_.whole(buffer, sends ? Access::read : Access::write)});
}

void CommunicationEmitter::reduce_loss() {
  if (!step_.groups.all) return;
  builder_.add_collective({.name = "all_reduce:loss",
                           .kind = OperationKind::all_reduce,
                           .stream = Stream::reduce,
                           .phase = Phase::other},
                          reduction(step_.groups.all, 2, 2, Dtype::float64),
                          {builder_.whole(storage_.loss, Access::read_write)});
}

}  // namespace shardscope

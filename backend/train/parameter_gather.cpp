#include "backend/train/parameter_gather.h"

#include <algorithm>
#include <utility>

#include "core/native/unit_state.h"

namespace shardscope {
namespace {

/// Whether a rank keeps only its shard of a unit's most exact storage.
bool are_parameters_sharded(const Model& model, const Strategy& strategy, const Unit& unit) {
  const Sharding sharding = sharding_of(strategy);
  const bool trained = model.parameters[unit.slots.front().parameter.value].trainable;
  const bool keeps_master = trained && has_master(strategy);
  return keeps_master ? sharding.optimizer_states : sharding.parameters;
}

}  // namespace

ParameterGather::ParameterGather(const Model& model, const std::vector<UnitPlan>& plans,
                                 Executor& executor, Communicator& world)
    : ParameterGather(model, plans, executor, world, exact_storages(executor),
                      Gathered::parameters) {}

ParameterGather::ParameterGather(const Model& model, const std::vector<UnitPlan>& plans,
                                 Executor& executor, Communicator& world,
                                 std::vector<UnitStorage> storages)
    : ParameterGather(model, plans, executor, world, std::move(storages), Gathered::state) {}

ParameterGather::ParameterGather(const Model& model, const std::vector<UnitPlan>& plans,
                                 Executor& executor, Communicator& world,
                                 std::vector<UnitStorage> storages, Gathered what)
    : executor_(executor),
      world_(world),
      storages_(std::move(storages)),
      places_(model.parameters.size()) {
  const Strategy& strategy = executor.schedule().strategy;
  const int ranks = strategy.mesh.replicate * strategy.mesh.shard;
  for (std::size_t stage = plans.size(); stage-- > 0;) {
    const std::vector<Unit>& units = plans[stage].units;
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (units[u].slots.empty()) continue;
      const bool is_sharded = what == Gathered::state
                                  ? sharding_of(strategy).optimizer_states
                                  : are_parameters_sharded(model, strategy, units[u]);
      const std::int64_t by_owner = is_sharded ? units[u].shard_elements : units[u].padded_elements;
      for (const FlatSlot& slot : units[u].slots)
        places_[slot.parameter.value] = {static_cast<int>(stage) * ranks, u, slot.offset, by_owner};
    }
  }
}

void ParameterGather::gather(ParameterId parameter, std::int64_t first, std::int64_t elements,
                             std::span<float> out) {
  const Place& place = places_[parameter.value];
  const std::int64_t end = place.offset + first + elements;
  for (std::int64_t begin = place.offset + first; begin < end;) {
    const std::int64_t owner = begin / place.by_owner;
    const std::int64_t count = std::min(end, (owner + 1) * place.by_owner) - begin;
    const std::span<float> part = out.empty() ? out : out.first(static_cast<std::size_t>(count));
    move({place.first_rank + static_cast<int>(owner), place.unit, begin - owner * place.by_owner,
          count},
         part);
    if (!out.empty()) out = out.subspan(static_cast<std::size_t>(count));
    begin += count;
  }
}

void ParameterGather::move(const Piece& piece, std::span<float> out) {
  const int rank = world_.rank();
  if (rank != 0 && rank != piece.owner) return;
  if (rank == 0 && piece.owner != 0) {
    executor_.between_steps([&] { world_.receive(std::as_writable_bytes(out), piece.owner); });
    return;
  }
  const Unit* const unit = &executor_.schedule().units[piece.unit];
  const UnitStorage& storage = *std::ranges::find(storages_, unit, &UnitStorage::unit);
  if (rank == 0) return storage.read(piece.begin, out);
  std::vector<float> own(static_cast<std::size_t>(piece.elements));
  storage.read(piece.begin, own);
  executor_.between_steps([&] { world_.send(std::as_bytes(std::span(own)), 0); });
}

}  // namespace shardscope

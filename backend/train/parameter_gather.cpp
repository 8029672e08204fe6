#include "backend/train/parameter_gather.h"

#include <algorithm>
#include <utility>

namespace shardscope {

ParameterGather::ParameterGather(const Model& model, Executor& executor, Communicator& world)
    : ParameterGather(model, executor, world, exact_storages(executor)) {}

ParameterGather::ParameterGather(const Model& model, Executor& executor, Communicator& world,
                                 std::vector<UnitStorage> storages)
    : executor_(executor),
      world_(world),
      storages_(std::move(storages)),
      places_(model.parameters.size()) {
  for (std::size_t u = 0; u < storages_.size(); ++u) {
    for (const FlatSlot& slot : storages_[u].unit->slots)
      places_[slot.parameter.value] = {u, slot.offset};
  }
}

void ParameterGather::gather(ParameterId parameter, std::int64_t first, std::int64_t elements,
                             std::span<float> out) {
  const Place& place = places_[parameter.value];
  const UnitStorage& storage = storages_[place.unit];
  const Unit& unit = *storage.unit;
  const std::int64_t end = place.offset + first + elements;
  const std::int64_t by_owner = storage.is_whole() ? unit.padded_elements : unit.shard_elements;
  for (std::int64_t begin = place.offset + first; begin < end;) {
    const std::int64_t owner = begin / by_owner;
    const std::int64_t count = std::min(end, (owner + 1) * by_owner) - begin;
    const std::span<float> part = out.empty() ? out : out.first(static_cast<std::size_t>(count));
    move(static_cast<int>(owner), storage, begin - owner * by_owner, part, count);
    if (!out.empty()) out = out.subspan(static_cast<std::size_t>(count));
    begin += count;
  }
}

void ParameterGather::move(int owner, const UnitStorage& storage, std::int64_t begin,
                           std::span<float> out, std::int64_t elements) {
  const int rank = world_.rank();
  if (rank != 0 && rank != owner) return;
  if (rank == 0 && owner != 0) {
    executor_.between_steps([&] { world_.receive(std::as_writable_bytes(out), owner); });
    return;
  }
  if (rank == 0) return storage.read(begin, out);
  std::vector<float> own(static_cast<std::size_t>(elements));
  storage.read(begin, own);
  executor_.between_steps([&] { world_.send(std::as_bytes(std::span(own)), 0); });
}

}  // namespace shardscope

#include "backend/train/parameter_storage.h"

#include <algorithm>

#include "core/units.h"

namespace shardscope {

std::vector<StoredPart> stored_parts(const Model& model, const Unit& unit, std::int64_t first,
                                     std::int64_t elements) {
  std::vector<StoredPart> parts;
  for (const FlatSlot& slot : unit.slots) {
    const std::int64_t slot_end = slot.offset + model.parameters[slot.parameter.value].elements();
    const std::int64_t begin = std::max(slot.offset, first);
    const std::int64_t end = std::min(slot_end, first + elements);
    if (begin < end)
      parts.push_back({slot.parameter, begin - slot.offset, end - begin, begin - first});
  }
  return parts;
}

std::vector<UnitStorage> unit_storages(const Executor& executor, const std::string& what) {
  const Schedule& schedule = executor.schedule();
  const std::int64_t shard = shard_position(schedule.strategy, schedule.rank).index;
  std::vector<UnitStorage> storages;
  for (const Unit& unit : schedule.units) {
    const std::string name = what + ":" + (unit.name.empty() ? "root" : unit.name);
    if (!executor.find(name)) continue;
    const std::span<float> elements = executor.elements<float>(name);
    const bool whole = static_cast<std::int64_t>(elements.size()) == unit.padded_elements;
    storages.push_back({&unit, whole ? 0 : shard * unit.shard_elements, elements});
  }
  return storages;
}

}  // namespace shardscope

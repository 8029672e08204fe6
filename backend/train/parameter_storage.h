// Where a rank keeps its part of each parameter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/executor/executor.h"
#include "core/model/model.h"
#include "core/schedule.h"

namespace shardscope {

/// Part of a parameter in a stretch of a unit's flat storage. Offsets and lengths in elements.
struct StoredPart {
  ParameterId parameter;
  std::int64_t parameter_offset = 0;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  ///< from the start of the stretch
  bool operator==(const StoredPart&) const = default;
};

/// The parts of parameters, frozen ones too, in elements [first, first + elements) of a unit's flat
/// storage, ascending.
std::vector<StoredPart> stored_parts(const Model& model, const Unit& unit, std::int64_t first,
                                     std::int64_t elements);

/// A rank's part of one unit's flat storage: its shard under full and hybrid sharding, else all of
/// it.
struct UnitStorage {
  const Unit* unit = nullptr;
  std::int64_t first = 0;  ///< element of the flat storage
  std::span<float> elements;
};

/// The storage of "parameters", "adam_m", "adam_v" or "momentum" of all units that have it, in the
/// schedule's order.
std::vector<UnitStorage> unit_storages(const Executor& executor, const std::string& what);

}  // namespace shardscope

// Where a rank keeps its part of each parameter.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/executor/executor.h"
#include "core/model/model.h"
#include "core/schedule/schedule.h"

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

/// A rank's part of one unit's flat storage, its shard or all of it; float32 or bfloat16.
struct UnitStorage {
  const Unit* unit = nullptr;
  std::int64_t first = 0;  ///< element of the flat storage
  std::int64_t elements = 0;
  Dtype dtype = Dtype::float32;
  std::span<std::byte> memory;  ///< the device's
  DeviceMemory* device = nullptr;

  bool is_whole() const { return elements == unit->padded_elements; }
  /// Elements [begin, begin + values.size()) of this part, widened or rounded.
  void read(std::int64_t begin, std::span<float> values) const;
  void write(std::int64_t begin, std::span<const float> values) const;
};

/// What is stored of parameters: those that are computed with, or the master copy.
enum class StoredParameters : std::uint8_t { computed_with, master };

/// That storage of all units that have it, in the schedule's order.
std::vector<UnitStorage> unit_storages(const Executor& executor, StoredParameters what);

/// A state that the optimizer keeps of each trained parameter.
struct OptimizerState {
  std::string_view name;    ///< PyTorch's
  std::string_view buffer;  ///< how its buffers' names begin
};
inline constexpr std::array<OptimizerState, 3> optimizer_states{
    {{"exp_avg", "adam_m"}, {"exp_avg_sq", "adam_v"}, {"momentum_buffer", "momentum"}}};
bool keeps_state(const Optimizer& optimizer, const OptimizerState& state);
/// The storage of a state in all units that have it; none where the optimizer has no such state.
std::vector<UnitStorage> state_storages(const Executor& executor, const OptimizerState& state);

/// The most exact storage of each unit: its master copy, or where it has none what is computed
/// with.
std::vector<UnitStorage> exact_storages(const Executor& executor);

}  // namespace shardscope

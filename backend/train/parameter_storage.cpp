#include "backend/train/parameter_storage.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/base/bfloat16.h"
#include "core/native/units.h"

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

namespace {

constexpr std::string_view name_of(StoredParameters what) {
  return what == StoredParameters::master ? "master" : "parameters";
}

std::optional<UnitStorage> storage_of(const Executor& executor, const Unit& unit,
                                      std::string_view buffer_name, Dtype dtype) {
  const Schedule& schedule = executor.schedule();
  const std::string name =
      fmt::format("{}:{}", buffer_name, unit.name.empty() ? "root" : unit.name);
  const std::optional<BufferId> buffer = executor.find(name);
  if (!buffer) return std::nullopt;
  UnitStorage storage{.unit = &unit,
                      .dtype = dtype,
                      .memory = executor.bytes(*buffer),
                      .device = &executor.memory_of(*buffer)};
  storage.elements =
      static_cast<std::int64_t>(storage.memory.size()) / size_of(storage.dtype).count;
  if (!storage.is_whole())
    storage.first = shard_position(schedule.strategy, schedule.rank).index * unit.shard_elements;
  return storage;
}

std::optional<UnitStorage> storage_of(const Executor& executor, const Unit& unit,
                                      StoredParameters what) {
  const PrecisionDtypes dtypes = dtypes_of(executor.schedule().strategy.precision);
  return storage_of(executor, unit, name_of(what),
                    what == StoredParameters::master ? dtypes.updated : dtypes.compute);
}

}  // namespace

void UnitStorage::read(std::int64_t begin, std::span<float> values) const {
  const std::byte* from = memory.data() + begin * size_of(dtype).count;
  if (dtype == Dtype::float32) return device->copy_out(std::as_writable_bytes(values), from);
  std::vector<Bfloat16> stored(values.size());
  device->copy_out(std::as_writable_bytes(std::span(stored)), from);
  std::ranges::transform(stored, values.begin(), to_float);
}

void UnitStorage::write(std::int64_t begin, std::span<const float> values) const {
  std::byte* to = memory.data() + begin * size_of(dtype).count;
  if (dtype == Dtype::float32) return device->copy_in(to, std::as_bytes(values));
  std::vector<Bfloat16> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), to_bfloat16);
  device->copy_in(to, std::as_bytes(std::span(rounded)));
}

std::vector<UnitStorage> unit_storages(const Executor& executor, StoredParameters what) {
  std::vector<UnitStorage> storages;
  for (const Unit& unit : executor.schedule().units)
    if (const auto storage = storage_of(executor, unit, what)) storages.push_back(*storage);
  return storages;
}

bool keeps_state(const Optimizer& optimizer, const OptimizerState& state) {
  if (optimizer.kind == OptimizerKind::adamw) return state.buffer.starts_with("adam");
  return state.buffer == "momentum" && optimizer.momentum != 0;
}

std::vector<UnitStorage> state_storages(const Executor& executor, const OptimizerState& state) {
  const Dtype dtype = dtypes_of(executor.schedule().strategy.precision).updated;
  std::vector<UnitStorage> storages;
  for (const Unit& unit : executor.schedule().units)
    if (const auto storage = storage_of(executor, unit, state.buffer, dtype))
      storages.push_back(*storage);
  return storages;
}

std::vector<UnitStorage> exact_storages(const Executor& executor) {
  std::vector<UnitStorage> storages;
  for (const Unit& unit : executor.schedule().units) {
    const auto master = storage_of(executor, unit, StoredParameters::master);
    const auto storage =
        master ? master : storage_of(executor, unit, StoredParameters::computed_with);
    if (storage) storages.push_back(*storage);
  }
  return storages;
}

}  // namespace shardscope

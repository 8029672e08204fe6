#include "core/native/zero_paper.h"
#include "core/schedule/model_states.h"

#include <algorithm>

namespace shardscope {
namespace {

bool shards_parameters(ShardingStrategy s) {
  return s == ShardingStrategy::full_shard || s == ShardingStrategy::hybrid_shard;
}
bool shards_gradients(ShardingStrategy s) {
  return shards_parameters(s) || s == ShardingStrategy::shard_grad_op ||
         s == ShardingStrategy::hybrid_shard_zero2;
}
bool shards_optimizer_states(ShardingStrategy s) { return s != ShardingStrategy::no_shard; }

/// A rank's part of a unit's flat storage.
struct Part {
  std::int64_t first = 0;
  std::int64_t elements = 0;
};

/// Bytes of a part that belong to no parameter.
Bytes fill_bytes(const Unit& unit, Part part, Dtype dtype) {
  std::int64_t used = 0;
  for (const FlatSlot& slot : unit.slots) {
    const std::int64_t begin = std::max(slot.offset, part.first);
    const std::int64_t end = std::min(slot.offset + slot.elements, part.first + part.elements);
    used += std::max<std::int64_t>(0, end - begin);
  }
  return bytes_of(part.elements - used, dtype);
}

/// Element type of a kept buffer of the categories P, G and OS.
Dtype dtype_of(const Schedule& schedule, const Buffer& buffer) {
  const PrecisionDtypes dtypes = dtypes_of(schedule.strategy.precision);
  if (buffer.category == MemoryCategory::parameters) return dtypes.compute;
  return buffer.category == MemoryCategory::gradients ? dtypes.gradients : dtypes.updated;
}

/// Which of the sums of ModelStates a kept buffer counts in; null if none.
Bytes* sum_for(ModelStates& states, const Schedule& schedule, const Buffer& buffer) {
  if (buffer.on_host) return nullptr;
  if (buffer.category == MemoryCategory::parameters && !buffer.allocated_by)
    return &states.parameters;
  if (buffer.category == MemoryCategory::optimizer_states) return &states.optimizer_states;
  if (buffer.category == MemoryCategory::gradients &&
      schedule.name(buffer).starts_with("gradients:"))
    return &states.gradients;
  return nullptr;
}

}  // namespace

ModelStates zero_paper_states(std::int64_t elements, ShardingStrategy sharding, int shards,
                              const Optimizer& optimizer, Precision precision,
                              Dtype gradient_dtype) {
  const std::int64_t shard = (elements + shards - 1) / shards;
  return {.parameters = bytes_of(shards_parameters(sharding) ? shard : elements,
                                 dtypes_of(precision).compute),
          .gradients = bytes_of(shards_gradients(sharding) ? shard : elements, gradient_dtype),
          .optimizer_states = Bytes{optimizer_bytes_per_element(optimizer, precision)} *
                              (shards_optimizer_states(sharding) ? shard : elements)};
}

ModelStates states_of(const Schedule& schedule) {
  ModelStates states;
  for (const Buffer& buffer : schedule.buffers)
    if (Bytes* sum = sum_for(states, schedule, buffer)) *sum += buffer.bytes;
  return states;
}

ModelStates padding_of(const Schedule& schedule) {
  ModelStates padding;
  const int shard = schedule.rank % schedule.strategy.mesh.shard;
  for (const Buffer& buffer : schedule.buffers) {
    Bytes* sum = sum_for(padding, schedule, buffer);
    if (sum == nullptr) continue;
    const Unit& unit = schedule.units[buffer.unit.value];
    const Dtype dtype = dtype_of(schedule, buffer);
    const bool sharded = buffer.bytes != bytes_of(unit.padded_elements, dtype);
    *sum += fill_bytes(unit,
                       sharded ? Part{shard * unit.shard_elements, unit.shard_elements}
                               : Part{0, unit.padded_elements},
                       dtype);
  }
  return padding;
}

}  // namespace shardscope

#include <algorithm>
#include <map>
#include <string_view>

#include "sim/planner/sharding_costs.h"

namespace shardscope::planner {
namespace {

/// A unit of FSDP: what it gathers, and whether its outputs need a gradient for sure.
struct Unit {
  Bytes bytes;
  bool is_root = false, is_trained = false;
};

/// The model's parameters as they lie, or in the dtype that is computed with where that is
/// narrower: no less is stored or gathered of them.
class Weights {
 public:
  explicit Weights(const ShardingCosts& costs) : costs_(costs) {
    for (const Parameter& parameter : costs.inputs.model.parameters)
      by_name_.emplace(parameter.name, &parameter);
  }

  Bytes bytes(const Parameter& parameter) const {
    return std::min(bytes_of(parameter.elements(), parameter.dtype),
                    bytes_of(parameter.elements(), costs_.gathered_dtype));
  }
  Bytes all() const {
    Bytes sum;
    for (const auto& [name, parameter] : by_name_) sum += bytes(*parameter);
    return sum;
  }
  Unit unit(const PlannedUnit& planned) const {
    Unit result{.bytes = {}, .is_root = planned.name.empty()};
    for (const std::string& name : planned.parameters) {
      const auto known = by_name_.find(name);
      if (known == by_name_.end()) continue;  // a later name of what is tied
      result.bytes += bytes(*known->second);
      result.is_trained = result.is_trained || known->second->trainable;
    }
    return result;
  }
  const Parameter* find(std::string_view name) const {
    const auto known = by_name_.find(name);
    return known == by_name_.end() ? nullptr : known->second;
  }

 private:
  const ShardingCosts& costs_;
  std::map<std::string_view, const Parameter*> by_name_;
};

Duration gather_time(const ShardingCosts& costs, Bytes bytes, const Group& group) {
  if (bytes == Bytes{} || group.ranks.size() < 2) return {};
  return costs.inputs.costs.collective_time(OperationKind::all_gather, bytes, group);
}

/// A backward gathers again the units through which gradients go for sure: those that have a
/// trained parameter. Two of them may be left out, as in fsdp_bounds.
void fsdp(const ShardingCosts& costs, const Weights& weights, ShardingBounds& result) {
  const Choice& choice = costs.choice;
  if (choice.sharding == ShardingStrategy::no_shard) return;
  const bool again = shards_parameters(choice.sharding);
  PerStep gathers;
  Duration once_more, largest;
  for (const PlannedUnit& planned : costs.plan().units) {
    const Unit unit = weights.unit(planned);
    const Duration gather = gather_time(costs, unit.bytes, costs.shards);
    gathers.communication.gathers += gather;
    largest = std::max(largest, gather);
    if (unit.is_trained) once_more += gather;
    if (unit.is_root) gathers.exposed = gather;
    if (unit.is_root && again && choice.runtime == Runtime::fsdp1) result.gathered = unit.bytes;
  }
  if (again) gathers.communication.gathers += std::max(Duration{}, once_more - largest * 2);
  if (!again) result.gathered = weights.all();
  result.exposes_each = true;
  (again ? result.each : result.once) = gathers;
}

/// Stage 3 gathers what is not persistent for each forward.
void zero3(const ShardingCosts& costs, const Weights& weights, ShardingBounds& result) {
  Bytes gathered;
  for (const PlannedPartition& partition : costs.plan().partitions)
    if (const Parameter* parameter = weights.find(partition.name);
        parameter != nullptr && !partition.persistent)
      gathered += weights.bytes(*parameter);
  const bool has_second_copy = is_hybrid(costs.choice.sharding);
  (has_second_copy ? result.once : result.each).communication.gathers =
      gather_time(costs, gathered, costs.world);
}

}  // namespace

ShardingBounds adapter_bounds(const ShardingCosts& costs) {
  const Choice& choice = costs.choice;
  ShardingBounds result;
  if (costs.inputs.training.fine_tuning->quantization || choice.runtime == Runtime::native)
    return result;
  const Weights weights(costs);
  const bool is_zero = choice.runtime == Runtime::deepspeed;
  const bool is_sharded =
      is_zero ? zero_stage(choice.sharding) == 3 : choice.sharding != ShardingStrategy::no_shard;
  const std::size_t parts = !is_sharded ? 1
                            : is_zero   ? costs.world.ranks.size()
                                        : costs.shards.ranks.size();
  if (choice.offload != Offload::all)
    result.states.parameters = {weights.all().count / static_cast<std::int64_t>(parts)};
  if (is_zero && is_sharded)
    zero3(costs, weights, result);
  else if (choice.runtime == Runtime::fsdp1 || choice.runtime == Runtime::fsdp2)
    fsdp(costs, weights, result);
  return result;
}

}  // namespace shardscope::planner

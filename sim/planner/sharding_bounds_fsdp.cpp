#include <algorithm>

#include "sim/planner/sharding_costs.h"

namespace shardscope::planner {
namespace {

/// A gather and a reduction of each unit.
struct UnitSums {
  std::int64_t elements = 0, largest = 0;
  PerStep gathers, reductions;
  Duration largest_gather;
};

/// The root is gathered before anything is computed, and reduced when all is computed.
UnitSums sums_of(const ShardingPlan& sharding, const ShardingCosts& costs) {
  UnitSums sums;
  for (const PlannedUnit& unit : sharding.units) {
    const Duration gather = costs.time(OperationKind::all_gather, unit.padded_elements,
                                       costs.gathered_dtype, costs.shards);
    const Duration reduction =
        costs.time(OperationKind::reduce_scatter, unit.padded_elements, costs.dtype, costs.shards);
    sums.gathers.communication.gathers += gather;
    sums.reductions.communication.reductions += reduction;
    sums.reductions.communication.between_replicas +=
        costs.time(OperationKind::all_reduce, unit.shard_elements, costs.dtype, costs.replicas);
    sums.elements += unit.elements;
    sums.largest = std::max(sums.largest, unit.elements);
    sums.largest_gather = std::max(sums.largest_gather, gather);
    if (!unit.name.empty()) continue;
    sums.gathers.exposed = gather;
    sums.reductions.exposed = reduction;
  }
  return sums;
}

/// FSDP1 keeps the root whole from forward to backward.
Bytes kept_root(const ShardingPlan& sharding, const ShardingCosts& costs) {
  if (costs.choice.runtime != Runtime::fsdp1 || !shards_parameters(costs.choice.sharding))
    return {};
  Bytes root;
  for (const PlannedUnit& unit : sharding.units)
    if (unit.name.empty()) root = bytes_of(unit.elements, costs.dtype);
  return root;
}

void add(PerStep& to, const PerStep& other) {
  to.communication.gathers += other.communication.gathers;
  to.communication.reductions += other.communication.reductions;
  to.communication.between_replicas += other.communication.between_replicas;
  to.exposed += other.exposed;
  to.copies += other.copies;
}

}  // namespace

/// Where units are gathered again in the backward, the two largest may be left out: the root and
/// the last one. What a micro-batch gathers is let go of behind its backward, and streams of
/// communication wait for what is computed before the next forward begins: FSDP1's
/// _wait_for_computation_stream, FSDP2's FSDPState._root_pre_forward. Behind a backward that
/// reduces what is computed waits for the reductions: _post_backward_final_callback,
/// FSDPParamGroup.finalize_backward. So each micro-batch exposes its root's.
ShardingBounds fsdp_bounds(const ShardingCosts& costs) {
  const Choice& choice = costs.choice;
  const ShardingPlan sharding = costs.plan();
  const bool again = shards_parameters(choice.sharding);
  ShardingBounds result;
  UnitSums sums = sums_of(sharding, costs);
  result.gathered = kept_root(sharding, costs);
  if (again) {
    Duration& gathers = sums.gathers.communication.gathers;
    gathers += std::max(Duration{}, gathers - sums.largest_gather * 2);
  }
  // FSDP2 copies parameters out of what it gathers, and gradients into what it reduces.
  if (choice.runtime == Runtime::fsdp2) {
    const std::int64_t copied_again =
        again ? std::max<std::int64_t>(0, sums.elements - 2 * sums.largest) : 0;
    sums.gathers.copies = costs.copied(sums.elements + copied_again, costs.gathered_dtype);
    sums.reductions.copies = costs.copied(sums.elements, costs.dtype);
  }
  result.exposes_each = true;
  const bool lets_go =
      again || (choice.reduces_every_micro_batch && choice.sharding != ShardingStrategy::no_shard);
  (lets_go ? result.each : result.once) = sums.gathers;
  add(choice.reduces_every_micro_batch ? result.each : result.once, sums.reductions);
  if (!choice.reduces_every_micro_batch) costs.keep_gradients(costs.dtype, result);
  if (!again && choice.sharding != ShardingStrategy::no_shard)
    result.gathered = bytes_of(sums.elements, costs.gathered_dtype);
  if (choice.offload == Offload::all) return result;
  result.states = sharding.per_rank;
  result.update = costs.read_once(result.states);
  return result;
}

}  // namespace shardscope::planner

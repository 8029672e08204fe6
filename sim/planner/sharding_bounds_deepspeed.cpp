#include <algorithm>

#include "sim/engine/clock_options.h"
#include "sim/planner/sharding_costs.h"

namespace shardscope::planner {
namespace {

class ZeroBounder {
 public:
  ZeroBounder(const ShardingCosts& costs, const DeepSpeedSettings& settings)
      : costs_(costs), settings_(settings), sharding_(costs.plan()) {}

  ShardingBounds bounds() const {
    const Offload offload = costs_.choice.offload;
    ShardingBounds result;
    result.states = sharding_.per_rank;
    result.states.gradients = {};
    if (offload != Offload::none) result.states.optimizer_states = {};
    if (offload == Offload::all) result.states.parameters = {};
    result.update = result.states.optimizer_states / costs_.inputs.profile.memory_bandwidth;
    if (settings_.stage == 3)
      zero3(result);
    else
      zero_flat(result);
    return result;
  }

 private:
  Dtype zero_dtype() const {
    return costs_.choice.precision == TrainingPrecision::bf16 ? Dtype::bfloat16 : costs_.dtype;
  }

  /// Gradients that fit a bucket are copied into it, and all are divided. Without overlap_comm all
  /// of it, and the reduction, is on the stream that computes.
  void reduce_buckets(Duration reduction, bool copies_beside, PerStep& step) const {
    step.communication.reductions = reduction;
    std::int64_t copied_elements = 0;
    if (settings_.contiguous_gradients)
      for (const Parameter& parameter : costs_.inputs.model.parameters)
        if (parameter.trainable && parameter.elements() <= settings_.reduce_bucket_elements)
          copied_elements += parameter.elements();
    if (!settings_.overlap_comm || !copies_beside)
      step.moves = costs_.inputs.costs.copy_time(bytes_of(2 * copied_elements, zero_dtype()));
    if (settings_.overlap_comm) return;
    step.serial = reduction;
    step.copies =
        bytes_of(2 * costs_.trainable, zero_dtype()) / costs_.inputs.profile.memory_bandwidth;
  }

  /// Stages 1 and 2 gather what they have updated. Stage 1 reduces in the last micro-batch.
  void zero_flat(ShardingBounds& result) const {
    const Dtype dtype = zero_dtype();
    const bool all = settings_.multi_rank_all_reduce || !settings_.reduce_scatter;
    const Duration reduction =
        costs_.time(all ? OperationKind::all_reduce : OperationKind::reduce_scatter,
                    costs_.trainable, dtype, costs_.world);
    const bool has_buckets = settings_.stage == 2 || settings_.accumulation_dtype != Dtype::float32;
    PerStep& reduced = settings_.stage == 2 ? result.each : result.once;
    if (has_buckets) {
      reduce_buckets(reduction, false, reduced);
      (settings_.stage == 2 ? result.host : result.host_once) = parts_of_owners();
    } else {
      reduced.communication.reductions = reduction;
    }
    const Duration gather =
        costs_.time(OperationKind::all_gather, costs_.trainable, dtype, costs_.world);
    result.once.communication.gathers = gather;
    result.once.serial += gather;
    if (settings_.stage == 2 || !has_buckets || costs_.choice.offload != Offload::none) return;
    // Whole gradients and the buckets stay until the last micro-batch.
    costs_.keep_gradients(dtype, result);
    if (settings_.contiguous_gradients)
      result.kept_gradients +=
          bytes_of(settings_.reduce_bucket_elements * (settings_.overlap_comm ? 2 : 1), dtype);
    if (!settings_.overlap_comm) result.states.gradients = sharding_.per_rank.gradients;
  }

  /// Of an operator that issues nothing: a view, an empty tensor.
  Duration dispatch() const {
    Schedule recorded;
    recorded.memory = MemorySource::caching_allocator;
    const DeviceClockOptions clock = clock_options(recorded, costs_.inputs.profile);
    return {std::min(clock.dispatch_ns(false), clock.dispatch_ns(true))};
  }

  /// Stages 1 and 2 take what is reduced apart for the ranks that own it: each part is narrowed and
  /// viewed before the reduction, and again after it.
  Duration parts_of_owners() const {
    if (!settings_.reduce_scatter || !settings_.multi_rank_all_reduce ||
        !settings_.contiguous_gradients)
      return {};
    constexpr std::int64_t views = 4;
    std::int64_t owners = 0;
    for (const PlannedBucket& group : sharding_.buckets)
      if (group.shard_elements > 0)
        owners += (group.elements + group.shard_elements - 1) / group.shard_elements;
    return dispatch() * (views * owners);
  }

  /// Stage 3 narrows the gradients of a bucket for each rank, and fills up the parts of ranks for
  /// which there is less of one. It does neither where a gradient is alone in its bucket and has
  /// equal parts. A gradient that takes at most half a bucket is alone only if it is the last one,
  /// or if one that takes more comes next, with which it exceeds the bucket.
  Duration narrowing() const {
    if (!settings_.reduce_scatter) return {};
    const std::int64_t ranks = costs_.choice.mesh.world();
    const std::int64_t bucket = settings_.reduce_bucket_elements;
    const auto takes_more = [&](const Parameter& p) { return 2 * p.elements() > bucket; };
    std::int64_t largest = 0, large = 0, parts = 0, with_equal_parts = 0, before_large = 0;
    for (const Parameter& parameter : costs_.inputs.model.parameters) {
      if (!parameter.trainable) continue;
      largest = std::max(largest, parameter.elements());
      if (takes_more(parameter)) ++large;
    }
    for (const Parameter& parameter : costs_.inputs.model.parameters) {
      const std::int64_t elements = parameter.elements();
      if (!parameter.trainable || elements == 0) continue;
      const std::int64_t part = (elements + ranks - 1) / ranks, whole = elements / part;
      if (elements % ranks != 0) {
        parts += ranks + (ranks - whole);
      } else if (!takes_more(parameter)) {
        ++with_equal_parts;
        if (elements + largest > bucket) ++before_large;
      }
    }
    const std::int64_t alone =
        std::min<std::int64_t>(with_equal_parts, 1 + std::min(large, before_large));
    return dispatch() * (parts + ranks * (with_equal_parts - alone));
  }

  /// What stage 3 gathers together it narrows for each rank. With a prefetch bucket that no
  /// parameter fills, and room for all of them, that is all of a forward but what the first module
  /// needs, and a last one: at most two are gathered alone.
  Duration prefetched_parts() const {
    const std::int64_t bucket = settings_.prefetch_bucket_elements;
    if (bucket <= 0 || costs_.elements + bucket > settings_.max_live_elements) return {};
    std::int64_t parts = 0, most_parts = 0;
    for (const PlannedPartition& partition : sharding_.partitions) {
      if (partition.persistent || partition.elements == 0) continue;
      if (partition.elements >= bucket) return {};
      const std::int64_t of_it =
          (partition.elements + partition.shard_elements - 1) / partition.shard_elements;
      parts += of_it;
      most_parts = std::max(most_parts, of_it);
    }
    return dispatch() * std::max<std::int64_t>(0, parts - 2 * most_parts);
  }

  /// Stage 3 gathers what is not persistent for each forward. For each backward it gathers the same
  /// again, without what it has kept. The second copy serves all but the first forward.
  void zero3(ShardingBounds& result) const {
    const Dtype dtype = zero_dtype();
    reduce_buckets(
        costs_.time(OperationKind::reduce_scatter, costs_.trainable, dtype, costs_.world), true,
        result.each);
    const Duration prefetched = prefetched_parts();
    result.host = narrowing();
    // The second copy has fewer parts.
    (is_hybrid(costs_.choice.sharding) ? result.host_once : result.host) += prefetched;
    std::int64_t gathered = 0, largest = 0;
    for (const PlannedPartition& partition : sharding_.partitions) {
      if (partition.persistent) continue;
      gathered += partition.elements;
      largest = std::max(largest, partition.elements);
    }
    if (settings_.contiguous_gradients)
      result.gathered += bytes_of(settings_.reduce_bucket_elements, dtype);
    if (costs_.choice.offload == Offload::none) result.gathered += sharding_.per_rank.gradients;
    if (gathered == 0) return;
    const std::int64_t again = std::max<std::int64_t>(
        0, gathered - settings_.max_reuse_elements - settings_.max_live_elements - 2 * largest);
    const auto gather = [&](std::int64_t elements, const Group& group) {
      return elements == 0 ? Duration{}
                           : costs_.time(OperationKind::all_gather, elements, dtype, group);
    };
    if (!is_hybrid(costs_.choice.sharding)) {
      result.each.communication.gathers =
          gather(gathered, costs_.world) + gather(again, costs_.world);
      return;
    }
    result.once.communication.gathers = gather(gathered, costs_.world);
    result.each.communication.second_copy = gather(again, costs_.shards);
    result.further.communication.second_copy = gather(gathered, costs_.shards);
    // At that moment each parameter is whole or in the second copy, which takes less.
    result.gathered += bytes_of(gathered / costs_.choice.mesh.shard, dtype);
  }

  const ShardingCosts& costs_;
  const DeepSpeedSettings& settings_;
  const ShardingPlan sharding_;
};

}  // namespace

ShardingBounds deepspeed_bounds(const ShardingCosts& costs) {
  const eager::TrainingSetup setup =
      training_setup(costs.choice, costs.inputs.model, costs.inputs.training);
  return ZeroBounder(costs, std::get<eager::DeepSpeedSetup>(setup.runtime).settings).bounds();
}

}  // namespace shardscope::planner

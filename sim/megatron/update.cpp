#include "sim/megatron/update.h"

#include <algorithm>

#include "core/base/ranks.h"
#include "sim/cost/cost_model.h"

namespace shardscope {
namespace {

constexpr std::int64_t half = 2, single = 4;
/// Read and written of an element: gradients as float32, unscaled in place, read for the norm; by
/// Adam parameter, gradient and two states, of which all but the gradient are written; the copy.
constexpr std::int64_t copied = half + single, unscaled = 2 * single, normed = single,
                       by_adam = 4 * single + 3 * single, copied_back = single + half;

/// A buffer of gradients and who has the same.
struct GradientBuffer {
  std::int64_t elements = 0;
  Ranks ranks;
  int shards = 1;
  std::int64_t own() const { return elements / shards; }
};

/// Reduced before the update and, where it is in shards, gathered after it.
Duration exchange_time(const GradientBuffer& buffer, const MegatronUpdate& update,
                       const CostModel& model) {
  if (buffer.ranks.size() == 1 || buffer.elements == 0) return {};
  const auto collective = [&](OperationKind kind, std::int64_t bytes_of_element) {
    return model.collectives()
        .cost(kind, Bytes{buffer.elements * bytes_of_element}, buffer.ranks)
        .time;
  };
  const std::int64_t of_gradient = size_of(update.reduced_in).count;
  const bool sums = buffer.shards == 1 || update.sums_everywhere;
  const Duration reduced =
      collective(sums ? OperationKind::all_reduce : OperationKind::reduce_scatter, of_gradient);
  return buffer.shards == 1 ? reduced : reduced + collective(OperationKind::all_gather, half);
}

Ranks every(int distance, int ranks) {
  return Ranks::spaced(0, distance, static_cast<std::size_t>(ranks));
}

GradientBuffer shared_buffer(const MegatronUpdate& update) {
  return {.elements = update.elements,
          .ranks = every(update.rank_distance, update.data_ranks),
          .shards = update.shards};
}

GradientBuffer expert_buffer(const ExpertUpdate& update) {
  return {.elements = update.elements,
          .ranks = every(update.rank_distance, update.data_ranks),
          .shards = update.shards};
}

}  // namespace

Duration megatron_exchange_time(const MegatronUpdate& update, const HardwareProfile& profile) {
  const CostModel model(profile);
  return exchange_time(shared_buffer(update), update, model) +
         exchange_time(expert_buffer(update.experts), update, model);
}

Duration megatron_update_time(const MegatronUpdate& update, const HardwareProfile& profile) {
  const CostModel model(profile);
  const GradientBuffer shared = shared_buffer(update);
  const GradientBuffer experts = expert_buffer(update.experts);
  const auto all_tensors = [&](std::int64_t bytes_of_element) {
    return model.work_time({.kind = WorkKind::multi_tensor,
                            .tensors = static_cast<std::int32_t>(update.tensors),
                            .bytes = Bytes{(shared.own() + experts.own()) * bytes_of_element}});
  };
  // A buffer in float32 is filled with zeros first, and divided by the data-parallel ranks before
  // it is reduced (gradient_scaling_factor; of one rank it is 1, and nothing is divided).
  const bool accumulates_apart = update.reduced_in == Dtype::float32;
  const std::int64_t buffered = accumulates_apart ? shared.elements + experts.elements : 0;
  const std::int64_t divided = update.data_ranks > 1 ? buffered : 0;
  const Duration in_buffers =
      model.work_time({.kind = WorkKind::fill, .bytes = Bytes{buffered * single}}) +
      model.work_time({.kind = WorkKind::pointwise, .bytes = Bytes{divided * 2 * single}});
  const HostCosts host = profile.host.value_or(HostCosts{});
  // A loop over tensors: no module calls these operators, as none calls those of a backward.
  const Duration launches =
      Duration::from_seconds(host.operation.seconds() * host.backward) * update.tensors;
  const auto to_and_from_buffer = [&]() -> Duration {
    if (!update.sums_everywhere || update.data_ranks == 1) return {};
    const Bytes moved{(shared.elements + experts.elements) * 2 * size_of(update.reduced_in).count};
    const Duration once = model.work_time({.kind = WorkKind::pointwise, .bytes = moved});
    const Duration back = model.work_time({.kind = WorkKind::multi_tensor,
                                           .tensors = static_cast<std::int32_t>(update.tensors),
                                           .bytes = moved});
    // Buffers in float32 are divided above.
    return once * (accumulates_apart ? 1 : 2) + std::max(launches, back);
  };
  const Duration on_device = std::max(launches, all_tensors(copied)) + all_tensors(unscaled) +
                             all_tensors(normed) + all_tensors(by_adam) + all_tensors(copied_back);
  return in_buffers + to_and_from_buffer() + on_device + megatron_exchange_time(update, profile);
}

}  // namespace shardscope

#include "sim/validate/published_update.h"

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

}  // namespace

Duration megatron_update_time(const MegatronUpdate& update, const HardwareProfile& profile) {
  const CostModel model(profile);
  const Ranks ranks =
      Ranks::spaced(0, update.rank_distance, static_cast<std::size_t>(update.data_ranks));
  const auto collective = [&](OperationKind kind, std::int64_t bytes_of_element) {
    if (update.data_ranks == 1) return Duration{};
    return model.collectives().cost(kind, Bytes{update.elements * bytes_of_element}, ranks).time;
  };
  const std::int64_t own = update.elements / update.shards;
  const auto all_tensors = [&](std::int64_t bytes_of_element) {
    return model.work_time({.kind = WorkKind::multi_tensor,
                            .tensors = static_cast<std::int32_t>(update.tensors),
                            .bytes = Bytes{own * bytes_of_element}});
  };
  const Duration launches = profile.host.value_or(HostCosts{}).operation * update.tensors;
  const Duration on_device = std::max(launches, all_tensors(copied)) + all_tensors(unscaled) +
                             all_tensors(normed) + all_tensors(by_adam) + all_tensors(copied_back);
  const std::int64_t of_gradient = size_of(update.reduced_in).count;
  if (update.shards == 1) return collective(OperationKind::all_reduce, of_gradient) + on_device;
  return collective(OperationKind::reduce_scatter, of_gradient) + on_device +
         collective(OperationKind::all_gather, half);
}

}  // namespace shardscope

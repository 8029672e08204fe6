// Offloading of stages 1 and 2: gradients and the optimizer in the host's memory.
// Source: deepspeed 0.19.8, runtime/zero/stage_1_and_2.py.
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/flat_optimizer.h"
#include "core/pytorch/runtimes/deepspeed/norms.h"

namespace shardscope::eager::deepspeed {

/// An event on the current stream, where _offload_gradient_safety_enabled asks for one.
std::optional<EventId> FlatOptimizer::protecting_event() const {
  if (!offloads() || !setup_.has_streams()) return std::nullopt;
  return setup_.s.record_event(setup_.s.stream);
}

/// _record_gradient_stream.
void FlatOptimizer::protect(const Tensor& tensor) const {
  if (offloads()) setup_.record_stream(tensor, setup_.s.stream);
}

/// _wait_for_offload_copies.
void FlatOptimizer::wait_for_offload_copies() {
  if (offload_copied_) setup_.s.host_wait(*offload_copied_);
  offload_copied_.reset();
}

/// copy_grads_in_partition: gradients add up on the host and reach the master's at the boundary.
void FlatOptimizer::offload(std::size_t index) {
  Session& s = setup_.s;
  const Tensor gradient = gradient_of(index);
  const PartitionSlice own = own_slice(index);
  const Place& place = places_[index];
  if (!compact() && (micro_step_ > 0 || !at_boundary())) accumulate_on_host(index, gradient);
  if (!at_boundary()) return;
  const std::int64_t start = start_in_partition(place.group, place.place);
  const Tensor part = compact() ? narrow(s, compact_partition(place.group), 0, start, own.elements)
                                : narrow(s, view(s, gradient, {-1}), 0, own.offset, own.elements);
  offloaded_norms_[index] = vector_norm(s, to(s, part, norm_dtype));
  item(s, has_inf_or_nan(s, compact() ? part : gradient));
  const Tensor& master = groups_[place.group].master();
  copy_(s, narrow(s, master.grad(), 0, start, own.elements), to(s, part, master.dtype()), true);
  protect(compact() ? part : gradient);
  offload_copied_ = protecting_event();
  clear_gradient(index);
}

/// async_accumulate_grad_in_cpu_via_gpu.
void FlatOptimizer::accumulate_on_host(std::size_t index, const Tensor& gradient) {
  Session& s = setup_.s;
  wait_for_offload_copies();
  const Tensor flat = view(s, gradient, {-1});
  Tensor& sum = accumulated_on_host_[index];
  if (!sum) sum = zeros(s, {flat.numel()}, {.dtype = flat.dtype(), .device = Device::cpu});
  if (micro_step_ > 0) {
    const Tensor before = narrow(s, accumulation_buffer_, 0, 0, flat.numel());
    copy_(s, before, sum, true);
    add_(s, flat, before);
  }
  copy_(s, sum, flat, true);
  offload_copied_ = protecting_event();
}

/// complete_grad_norm_calculation_for_cpu_offload: the sum goes over the host.
Tensor FlatOptimizer::offloaded_norm(std::size_t group) {
  Session& s = setup_.s;
  for (const std::size_t index : groups_[group].in_partition())
    if (offloaded_norms_[index]) item(s, offloaded_norms_[index]);
  const Tensor total = tensor(s, {1}, {.dtype = Dtype::float32, .device = s.settings.device});
  all_reduce(s, setup_.group, total, "SUM");
  item(s, select(s, total, 0, 0));
  return tensor(s, {}, {.dtype = Dtype::float32, .device = Device::cpu});
}

/// On the host; the updated partition comes back in the parameters' dtype.
void FlatOptimizer::offloaded_step(std::size_t index, const Tensor& norm) {
  Session& s = setup_.s;
  const FlatGroup& group = groups_[index];
  unscale_and_clip(group.master().grad(), norm);
  setup_.optimizer.step(s, group.master());
  const Tensor updated = to(s, detach(s, group.master()), setup_.dtype());
  copy_(s, group.own_partition(s), updated, true);
  compact_partitions_[index].reset();
  averaged_gradients_[index].clear();
}

}  // namespace shardscope::eager::deepspeed

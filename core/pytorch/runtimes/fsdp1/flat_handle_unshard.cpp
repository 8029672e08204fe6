// FlatHandle: unsharding and resharding.
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/fsdp1/flat_handle.h"
#include "core/pytorch/runtimes/fsdp1/flat_storage.h"

namespace shardscope::eager::fsdp1 {

bool FlatHandle::pre_unshard(Session& s) {
  if (progress.state == HandleState::summon && skipped_sharded_views()) use_sharded_views(s);
  bool did_something = uses_original_parameters() && write_back_original_parameters(s);
  const bool offloads = unit_.shared.options.offload_parameters;
  if (is_sharded_strategy() && !offloads && !needs_unshard()) return did_something;
  if (uses_parameter_precision() && !forces_full_precision()) {
    use_low_precision_shard(s);
    did_something = true;
  } else if (offloads && flat_.device() != device_) {
    move_to(s, device_, true);
    did_something = true;
  }
  return did_something;
}

void FlatHandle::use_low_precision_shard(Session& s) {
  allocate_storage(low_precision_shard_);
  const NoGrad no_grad(s);
  copy_(s, low_precision_shard_, to(s, local_shard_, {.device = device_, .non_blocking = true}));
  flat_.set_data(low_precision_shard_);
}

bool FlatHandle::needs_unshard() {
  return is_sharded_strategy() && !is_allocated(padded_unsharded());
}

const Tensor& FlatHandle::padded_unsharded() {
  if (!forces_full_precision() || !uses_parameter_precision()) return full_padded_;
  free_storage(full_padded_);
  return full_precision_padded_;
}

void FlatHandle::unshard(Session& s) {
  if (!needs_unshard()) {
    use_unsharded_flat(s, is_sharded_strategy() ? padded_unsharded() : flat_);
    return;
  }
  const Tensor& padded = padded_unsharded();
  allocate_storage(padded);
  all_gather(s, padded);
  use_unsharded_flat(s, padded);
}

void FlatHandle::all_gather(Session& s, const Tensor& padded) {
  const Tensor shard = shallow_detach(s, flat_);
  all_gather_single(s, unit_.group, padded, shard);
  if (unit_.shared.options.offload_parameters) record_stream(s, unit_.shared, shard, s.stream);
}

void FlatHandle::use_unsharded_flat(Session& s, const Tensor& padded) {
  flat_.set_data(slice(s, padded, 0, 0, unpadded_elements()));
  const bool in_forward = progress.state == HandleState::forward;
  const bool in_pre_backward = progress.state == HandleState::backward_pre;
  if (uses_original_parameters()) {
    // The views were never switched away from the unsharded data.
    if (skipped_sharded_views() && in_pre_backward) return;
    use_unsharded_views(s, !in_forward && !in_pre_backward);
  } else if (in_forward) {
    use_unsharded_views(s, false);
  }
}

void FlatHandle::post_unshard(Session& s) {
  if (uses_parameter_precision() && is_sharded_strategy()) free_low_precision_shard(s);
}

void FlatHandle::free_low_precision_shard(Session& s) {
  unit_.shared.tell([&](Watcher& w) { w.on_low_precision_shard_freed(s, unit_); });
  record_stream(s, unit_.shared, low_precision_shard_, s.stream);
  free_storage(low_precision_shard_);
}

void FlatHandle::reshard(Session& s, bool free_unsharded) {
  use_sharded_flat(s);
  if (free_unsharded) free_unsharded_flat(s);
}

void FlatHandle::post_reshard(Session& s) {
  if (uses_parameter_precision() && !is_sharded_strategy() && !forces_full_precision())
    free_low_precision_shard(s);
}

void FlatHandle::free_unsharded_flat(Session& s) {
  const Tensor& padded = padded_unsharded();
  record_stream(s, unit_.shared, padded, s.stream);
  free_storage(padded);
}

void FlatHandle::use_sharded_flat(Session& s) {
  const bool in_forward = progress.state == HandleState::forward;
  const bool keeps_views = uses_original_parameters() && s.grad_enabled && in_forward &&
                           is_sharded_strategy() && !reshards_after_forward();
  Tensor unsharded;
  if (keeps_views) unsharded = shallow_detach(s, flat_);
  if (unit_.shared.options.offload_parameters && !is_sharded_strategy())
    record_stream(s, unit_.shared, shallow_detach(s, flat_), s.stream);
  flat_.set_data(local_shard_);
  if (!uses_original_parameters()) return;
  if (keeps_views)
    unsharded_for_skipped_views_ = unsharded;
  else
    use_sharded_views(s);
  if (!in_forward || skipped_sharded_views()) return;
  const bool accumulated_without_sync = flat_.grad().defined() && is_sharded_strategy() &&
                                        flat_.grad().numel() == unpadded_elements();
  if (accumulated_without_sync)
    use_unsharded_gradient_views(s);
  else
    use_sharded_gradient_views(s);
}

void FlatHandle::move_to(Session& s, Device device, bool non_blocking) {
  {
    const NoGrad no_grad(s);
    flat_.set_data(to(s, flat_, {.device = device, .non_blocking = non_blocking}));
  }
  if (!uses_original_parameters()) return;
  if (is_sharded(flat_))
    use_sharded_views(s);
  else
    use_unsharded_views(s, true);
}

void FlatHandle::offload_to_cpu(Session& s) {
  if (device_ == Device::cpu) return;
  move_to(s, Device::cpu, false);
  free_unsharded_flat(s);
}

void FlatHandle::restore_from_cpu(Session& s) {
  if (device_ == Device::cpu) return;
  const Tensor& padded = padded_unsharded();
  allocate_storage(padded);
  {
    const NoGrad no_grad(s);
    copy_(s, slice(s, padded, 0, 0, flat_.numel()), flat_);
  }
  use_unsharded_flat(s, padded);
}

void FlatHandle::write_back_to_local_shard(Session& s, bool gradient_too) {
  const NoGrad no_grad(s);
  const auto shard_of = [&](const Tensor& flat) {
    return is_sharded_strategy() ? unpadded_shard(s, flat) : flat;
  };
  const Tensor shard = shard_of(flat_);
  copy_(s, slice(s, local_shard_, 0, 0, shard.numel()), shard);
  if (!gradient_too || !sharded_gradient().defined()) return;
  const Tensor existing = sharded_gradient();
  const Tensor gradient = shard_of(flat_.grad());
  copy_(s, slice(s, existing, 0, 0, gradient.numel()), gradient);
}

}  // namespace shardscope::eager::fsdp1

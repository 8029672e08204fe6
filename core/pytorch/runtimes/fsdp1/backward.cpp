#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/fsdp1/flat_storage.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

bool frees_in_backward(const Unit& unit) {
  return unit.handle->is_sharded_strategy() &&
         (unit.sync_gradients || unit.handle->reshards_after_forward());
}

void post_backward_reshard(Session& s, Unit& unit) {
  reshard(s, unit, frees_in_backward(unit));
  const RecordFunction prefetching(s);
  prefetch(s, unit, Pass::backward);
}

/// For units whose output was not used for the loss, so that no post-backward hook came.
void catch_all_reshard(Session& s, Unit& unit) {
  const Visiting visiting(s, unit, Site::catch_all_reshard);
  if (!unit.handle) return;
  const FlatHandle& handle = *unit.handle;
  const bool is_resharded = same_storage(handle.flat(), handle.local_shard()) &&
                            handle.flat()->layout.offset == handle.local_shard()->layout.offset;
  if (is_resharded && !handle.skipped_sharded_views()) return;
  reshard(s, unit, frees_in_backward(unit));
}

void finalize_parameters(Session& s, Unit& unit) {
  FlatHandle* handle = unit.handle.get();
  if (!handle) return;
  handle->remove_post_backward_hook();
  if (!handle->flat().requires_grad() || !unit.sync_gradients) return;
  handle->prepare_gradient_for_optimizer(s);
  handle->progress.post_backward_called = false;
}

void wait_for_reductions(Session& s, const Shared& shared) {
  s.wait_stream(s.stream, shared.streams.post_backward);
  if (shared.streams.all_reduce != s.stream) s.wait_stream(s.stream, shared.streams.all_reduce);
  if (!shared.options.offload_parameters) return;
  shared.tell([&](Watcher& watcher) { watcher.on_stream_synchronize(s, s.stream); });
  s.host_sync();
}

void final_callback(Session& s, Shared& shared) {
  const NoGrad no_grad(s);
  const Visiting visiting(s, shared, {.site = Site::final_callback});
  if (shared.units.front()->sync_gradients) wait_for_reductions(s, shared);
  shared.order.next_iteration();
  for (Unit* unit : shared.units) {
    catch_all_reshard(s, *unit);
    finalize_parameters(s, *unit);
    if (!unit->handle) continue;
    FlatHandle::Progress& progress = unit->handle->progress;
    progress.ran_pre_backward_hook = false;
    progress.needs_pre_backward_unshard = false;
    progress.post_forward_index.reset();
    progress.state = HandleState::idle;
    progress.prefetched = false;
  }
  shared.final_callback_queued = false;
}

}  // namespace

void pre_backward(Session& s, Unit& unit) {
  const Visiting visiting(s, unit, Site::pre_backward);
  Shared& shared = unit.shared;
  FlatHandle* handle = unit.handle.get();
  if (handle && handle->progress.ran_pre_backward_hook) return;
  const RecordFunction recording(s);
  if (unit.is_root() && !shared.final_callback_queued) {
    shared.final_callback_queued = true;
    queue_callback(s, [&shared](Session& session) { final_callback(session, shared); });
    reset_gradient_info_if_needed(shared);
  }
  if (!handle) return;
  handle->progress.state = HandleState::backward_pre;
  if (handle->progress.needs_pre_backward_unshard) {
    if (!handle->progress.prefetched)
      unshard(s, unit, shared.streams.unshard, shared.streams.pre_unshard);
    s.wait_stream(s.stream, shared.streams.unshard);
  }
  handle->progress.needs_pre_backward_unshard = false;
  {
    const RecordFunction prefetching(s);
    prefetch(s, unit, Pass::backward);
  }
  handle->prepare_gradient_for_backward(s);
  handle->progress.ran_pre_backward_hook = true;
}

void post_backward(Session& s, Unit& unit) {
  const Visiting visiting(s, unit, Site::post_backward);
  const NoGrad no_grad(s);
  FlatHandle& handle = *unit.handle;
  handle.progress.post_backward_called = true;
  Tensor computed;  // lives past the end of the record
  const RecordFunction recording(s);
  handle.progress.state = HandleState::backward_post;
  if (!handle.flat().grad().defined()) return;
  post_backward_reshard(s, unit);
  if (!unit.sync_gradients) {
    if (handle.uses_original_parameters()) handle.use_unsharded_gradient_views(s);
    return;
  }
  s.wait_stream(unit.shared.streams.post_backward, s.stream);
  const OnStream on(s, unit.shared.streams.post_backward);
  computed = shallow_detach(s, handle.flat().grad());
  if (computed.dtype() != handle.reduce_dtype() && !handle.forces_full_precision())
    handle.flat().grad().set_data(to(s, handle.flat().grad(), handle.reduce_dtype()));
  reduce_gradient(s, unit);
  record_stream(s, unit.shared, computed, unit.shared.streams.post_backward);
}

void post_backward_reshard_only(Session& s, Unit& unit) {
  const Visiting visiting(s, unit, Site::post_backward_reshard_only);
  const RecordFunction recording(s);
  unit.handle->progress.state = HandleState::backward_post;
  post_backward_reshard(s, unit);
}

}  // namespace shardscope::eager::fsdp1

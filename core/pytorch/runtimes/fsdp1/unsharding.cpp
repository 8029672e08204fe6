#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

/// The host waits for an earlier free, so that it does not run ahead and allocate for every unit.
void limit_rate(Session& s, Shared& shared) {
  const std::size_t length = shared.limiter.size();
  const auto event = shared.limiter.dequeue_if_needed();
  shared.tell([&](Watcher& watcher) { watcher.on_limiter_dequeue(s, event, length); });
  if (!event) return;
  const RecordFunction recording(s);
  s.host_wait(*event);
}

Unit* unit_to_prefetch(const Unit& unit) {
  const Shared& shared = unit.shared;
  const HandleState state = unit.handle->progress.state;
  const BackwardPrefetch mode = shared.options.backward_prefetch;
  const bool backward = (state == HandleState::backward_pre && mode == BackwardPrefetch::pre) ||
                        (state == HandleState::backward_post && mode == BackwardPrefetch::post);
  const bool forward = state == HandleState::forward && shared.options.forward_prefetch;
  if (!backward && !forward) return nullptr;
  FlatHandle* target = backward ? shared.order.to_prefetch_in_backward(*unit.handle)
                                : shared.order.to_prefetch_in_forward(*unit.handle);
  if (!target || target->progress.prefetched) return nullptr;
  const bool wanted = backward ? target->progress.needs_pre_backward_unshard
                               : target->progress.needs_pre_forward_unshard;
  return wanted ? &target->unit() : nullptr;
}

}  // namespace

void unshard(Session& s, Unit& unit, StreamId unshard_stream, StreamId pre_unshard_stream) {
  const Visiting visiting(s, unit, Site::unshard);
  FlatHandle& handle = *unit.handle;
  bool did_something = false;
  {
    const OnStream on(s, pre_unshard_stream);
    did_something = handle.pre_unshard(s);
  }
  if (did_something) {
    unit.shared.tell([&](Watcher& watcher) { watcher.on_pre_unshard(s, unit, handle.flat()); });
    s.wait_stream(unshard_stream, pre_unshard_stream);
  }
  if (unit.shared.options.limit_all_gathers) limit_rate(s, unit.shared);
  const OnStream on(s, unshard_stream);
  handle.unshard(s);
  handle.post_unshard(s);
}

void reshard(Session& s, Unit& unit, bool free_unsharded) {
  const Visiting visiting(s, unit.shared,
                          {.site = Site::reshard, .unit = &unit, .frees = free_unsharded});
  unit.handle->reshard(s, free_unsharded);
  Shared& shared = unit.shared;
  if (shared.options.limit_all_gathers && free_unsharded) {
    const EventId freed = s.record_event(s.stream);
    shared.limiter.enqueue(freed);
    shared.tell([&](Watcher& w) { w.on_limiter_enqueue(s, freed, shared.limiter.size()); });
  }
  unit.handle->post_reshard(s);
  unit.handle->progress.prefetched = false;
}

void prefetch(Session& s, Unit& unit, Pass pass) {
  Unit* target = unit_to_prefetch(unit);
  const Site site = pass == Pass::forward ? Site::forward_prefetch : Site::backward_prefetch;
  const Visiting visiting(s, unit.shared, {.site = site, .unit = &unit, .target = target});
  if (!target) return;
  FlatHandle::Progress& progress = target->handle->progress;
  const HandleState before = progress.state;
  progress.state = pass == Pass::forward ? HandleState::forward : HandleState::backward_pre;
  unshard(s, *target, unit.shared.streams.unshard, unit.shared.streams.pre_unshard);
  progress.state = before;
  progress.prefetched = true;
}

}  // namespace shardscope::eager::fsdp1

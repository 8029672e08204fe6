#include "core/pytorch/runtimes/fsdp2/comm_context.h"

namespace shardscope::eager::fsdp2 {

void CommContext::lazy_init(Session& s) {
  streams_ = Streams{.copy_in = s.new_stream({"all_gather_copy_in", Stream::unshard}),
                     .all_gather = s.new_stream({"all_gather", Stream::unshard}),
                     .reduce_scatter = s.new_stream({"reduce_scatter", Stream::reduce}),
                     .all_reduce = s.new_stream({"all_reduce", Stream::reduce})};
  for (Watcher* watcher : watchers_) watcher->on_streams(s, *streams_);
}

AllGatherStreams CommContext::all_gather_streams(const Session& s, bool asynchronous,
                                                 TrainingState state) const {
  const bool prefetches = state == TrainingState::forward || state == TrainingState::pre_backward;
  if (!asynchronous && prefetches) return {streams_->copy_in, streams_->all_gather};
  return {s.stream, s.stream};
}

void CommContext::wait_all_gather_streams_on(Session& s, EventId event) {
  if (!streams_) return;  // unshard() before the first forward
  s.wait_event(streams_->copy_in, event);
  s.wait_event(streams_->all_gather, event);
}

void CommContext::release_all_gather_for_reuse(Session& s) {
  if (!all_gather_state) return;
  wait_all_gather_streams_on(s, all_gather_state->copied_out);
  let_go(s);
}

void CommContext::release_all_gather_on_current_stream(Session& s) {
  if (!all_gather_state) return;
  s.wait_event(s.stream, all_gather_state->copied_out);
  let_go(s);
}

void CommContext::note_post_reduce(StreamId stream, EventId event) {
  for (auto& [known, last] : last_post_reduce_events_)
    if (known == stream) {
      last = event;
      return;
    }
  last_post_reduce_events_.emplace_back(stream, event);
}

void CommContext::wait_for_reductions(Session& s) {
  for (const auto& [stream, event] : last_post_reduce_events_) s.wait_event(s.stream, event);
  last_post_reduce_events_.clear();
}

void CommContext::release_reduce_scatter_inputs(Session& s) {
  for (const ReduceScatterState& state : reduce_scatter_states)
    s.wait_event(state.allocation_stream, state.event);
  reduce_scatter_states.clear();
}

void CommContext::let_go(Session& s) {
  const AllGatherState released = *std::exchange(all_gather_state, std::nullopt);
  for (Watcher* watcher : watchers_) watcher->on_gather_released(s, released.result.output);
}

}  // namespace shardscope::eager::fsdp2

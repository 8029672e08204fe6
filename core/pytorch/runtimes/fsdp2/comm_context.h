// What the groups of one FSDP2 root share. Source: torch 2.15, _fsdp_param_group.py.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/all_gather.h"
#include "core/pytorch/runtimes/fsdp2/watcher.h"

namespace shardscope::eager::fsdp2 {

/// In the order in which they are made; the first three have a high priority (-1).
struct Streams {
  StreamId copy_in, all_gather, reduce_scatter, all_reduce;
};

/// AllGatherState: a buffer kept until the next group has copied into another.
struct AllGatherState {
  AllGatherResult result;
  EventId copied_out;
};

/// ReduceScatterState: an input kept until its reduce-scatter has ended.
struct ReduceScatterState {
  Tensor input;
  EventId event;
  StreamId allocation_stream;
};

/// FSDPCommContext.
class CommContext {
 public:
  explicit CommContext(std::vector<Watcher*>& watchers) : watchers_(watchers) {}

  void lazy_init(Session& s);
  const std::optional<Streams>& streams() const { return streams_; }
  const std::vector<Watcher*>& watchers() const { return watchers_; }

  /// Separate streams in forward and before backward, where gathers are prefetched; else the
  /// current one for both.
  AllGatherStreams all_gather_streams(const Session& s, bool asynchronous,
                                      TrainingState state) const;
  void wait_all_gather_streams_on(Session& s, EventId event);
  void release_all_gather_for_reuse(Session& s);
  void release_all_gather_on_current_stream(Session& s);

  std::optional<AllGatherState> all_gather_state;
  std::deque<ReduceScatterState> reduce_scatter_states;
  std::size_t reduce_scatter_max_input_buffers = 1;
  std::vector<ParameterGroup*> post_forward_order;

  /// Of each stream only the last event counts.
  void note_post_reduce(StreamId stream, EventId event);
  /// Waits for the last reductions and lets go of what was kept for them: the end of backward.
  void wait_for_reductions(Session& s);
  void release_reduce_scatter_inputs(Session& s);

 private:
  void let_go(Session& s);

  std::vector<std::pair<StreamId, EventId>> last_post_reduce_events_;  // by first use

  std::vector<Watcher*>& watchers_;
  std::optional<Streams> streams_;
};

}  // namespace shardscope::eager::fsdp2

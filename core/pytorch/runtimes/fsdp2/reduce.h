// FSDP2's reduction of gradients: copied into one buffer, reduce-scattered, all-reduced over
// replicas, cast and added to the sharded gradients. Source: torch 2.15, _fsdp_collectives.py.
#pragma once

#include <optional>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/parameter.h"
#include "core/pytorch/runtimes/fsdp2/watcher.h"

namespace shardscope::eager::fsdp2 {

/// Arguments of foreach_reduce.
struct ReduceRequest {
  std::vector<Parameter*> parameters;
  Tensors gradients;  ///< unsharded, let go after the copy-in
  const ProcessGroup* reduce_scatter_group = nullptr;
  const ProcessGroup* all_reduce_group = nullptr;  ///< null: not HSDP
  StreamId reduce_scatter_stream, all_reduce_stream;
  Dtype dtype = Dtype::float32;
  std::optional<double> divide_factor = {};
  bool force_sum = false;
  bool all_reduces = true;
  Tensor partial_output = {};  ///< reduced before, not yet all-reduced
  std::vector<Watcher*> watchers = {};
};

struct ReduceResult {
  Tensor reduce_scatter_input;
  EventId reduce_scatter_event;
  StreamId post_reduce_stream;
  EventId post_reduce_event;
  Tensor all_reduce_input;  ///< to be kept until the all-reduce has ended; None: there was none
  EventId all_reduce_event;
  Tensor partial_output;  ///< None, unless the all-reduce is still to come
};

/// foreach_reduce.
ReduceResult reduce_gradients(Session& s, ReduceRequest request);

}  // namespace shardscope::eager::fsdp2

// What DeepSpeed's own code does, told to whoever watches: the places that its recordings name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/common/visit_scope.h"

namespace shardscope::eager::deepspeed {

/// A function of deepspeed/runtime/zero that is running.
enum class Site : std::uint8_t {
  gradient_hook,     ///< reduce_independent_p_g_buckets_and_remove_grads
  reduce_ipg_grads,  ///< this and average_tensor: stages 1 and 2
  average_tensor,
  reduce_gradients,
  gradient_epilogue,  ///< independent_gradient_partition_epilogue
  step,
  check_overflow,
  has_overflow,
  scaled_global_norm,
  grad_norm,  ///< get_grad_norm_direct
  fetch,      ///< fetch_sub_module; this and what follows: stage 3
  all_gather_params,
  release,  ///< release_sub_module
  reduce_and_partition,
  avg_scatter_grads,
  post_step
};

struct Visit {
  Site site;
  const Module* module = nullptr;  ///< of fetch and release
};

/// Whether a stage 3 parameter is whole on this rank.
enum class GatherStatus : std::uint8_t { available, not_available, inflight };
/// What the coordinator knows of the order of modules.
enum class TraceMode : std::uint8_t { record, complete, invalid };

/// Indices are those of named_parameters(), as the engine found them.
using ParameterIndices = std::vector<std::size_t>;

struct Fetch {
  const Module& module;
  bool forward;
  TraceMode trace;
  const ParameterIndices& parameters;    ///< its own
  std::span<const GatherStatus> status;  ///< of each, before
};

/// All empty: override what matters.
class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void on_enter(Session&, const Visit&) {}
  virtual void on_leave(Session&, const Visit&) {}
  /// The gradient of a parameter enters the reduction.
  virtual void on_gradient(Session&, std::size_t /*parameter*/) {}
  virtual void on_fetch(Session&, const Fetch&) {}
  /// Before the all-gather, in the order of its buffer.
  virtual void on_gather(Session&, const ParameterIndices&) {}
  virtual void on_gather_wait(Session&, const ParameterIndices&) {}
  virtual void on_released(Session&, const Module&, const ParameterIndices& /*freed*/,
                           const ParameterIndices& /*kept*/) {}
};

using Watchers = std::vector<Watcher*>;

using Visiting = VisitScope<Watcher, Visit>;

}  // namespace shardscope::eager::deepspeed

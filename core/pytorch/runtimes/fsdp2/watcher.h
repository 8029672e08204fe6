// What FSDP2's own code does, told to whoever watches: the places that its recordings name.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager::fsdp2 {

class ParameterGroup;
class State;
struct Streams;

/// A function of torch/distributed/fsdp/_fully_shard that is running.
enum class Site : std::uint8_t {
  state_pre_forward,   ///< FSDPState._pre_forward
  state_post_forward,  ///< FSDPState._post_forward
  state_pre_backward,  ///< its call of the group's pre_backward, which may return at once
  lazy_init,
  final_callback,  ///< FSDPState._root_post_backward_final_callback
  pre_forward,     ///< this and what follows: of FSDPParamGroup
  post_forward,
  unshard,
  wait_for_unshard,
  reshard,
  forward_prefetch,  ///< of the group that is asked for
  backward_prefetch,
  pre_backward,
  post_backward,
  finalize_backward
};

struct Visit {
  Site site;
  const State* state = nullptr;           ///< of the state's own functions
  const ParameterGroup* group = nullptr;  ///< of a group's functions
};

/// All empty: override what matters.
class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void on_enter(Session&, const Visit&) {}
  virtual void on_leave(Session&, const Visit&) {}
  virtual void on_streams(Session&, const Streams&) {}
  /// An all-gather's output is let go, which was kept for the next group's copy-in.
  virtual void on_gather_released(Session&, const Tensor& /*output*/) {}
  /// `before`: of a gradient before it is reduced, else of its shard afterwards.
  virtual void on_division(Session&, const Tensor& /*divided*/, double /*by*/, bool /*before*/) {}
  /// Reduced gradients are about to be cast to the dtype of the sharded gradients.
  virtual void on_gradient_cast(Session&, const Tensor& /*reduced*/, Dtype /*to*/) {}
};

}  // namespace shardscope::eager::fsdp2

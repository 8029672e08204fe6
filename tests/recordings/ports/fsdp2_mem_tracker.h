// PyTorch's FSDPMemTracker: memory of a step under FSDP2 by its own categories.
#pragma once

#include <cstdint>

#include "core/pytorch/runtimes/fsdp2/fully_shard.h"
#include "tests/recordings/ports/category_tracker.h"

namespace shardscope::eager::fsdp2 {

/// _FSDPRefType, in its order.
enum class TrackedAs : std::uint8_t {
  sharded_parameter,
  unsharded_parameter,
  buffer,
  sharded_gradient,
  unsharded_gradient,
  activation,
  temporary,
  all_gather,
  reduce_scatter,
  optimizer_state,
  input
};

/// Watches the modules that fully_shard was called on. As the real one it keeps a unit's last
/// unsharded gradient alive while the unit's post-backward runs. Source: torch 2.15,
/// torch/distributed/_tools/fsdp2_mem_tracker.py.
class FsdpMemTracker final : public CategoryTracker, public Watcher {
 public:
  FsdpMemTracker(Session& s, FullySharded& sharded);

  /// Nothing: the shards are taken by enter().
  void track_model(Module&) override {}
  void track_input(const Tensor& input) override { track(input, TrackedAs::input); }
  void enter(Module& model) override;

  void on_operator(Session& s, const OperatorCall& call) override;
  void on_enter(Session& s, const Visit& visit) override;
  void on_leave(Session& s, const Visit& visit) override;

 private:
  /// _FSDPState.
  enum class Phase : std::uint8_t {
    pre_forward,
    forward,
    post_forward,
    pre_backward,
    backward,
    post_backward
  };

  void track(const Tensor& tensor, TrackedAs category) {
    add(tensor, static_cast<Category>(category));
  }
  std::size_t place_of(const ParameterGroup& group) const;
  void before_pre_forward(const ParameterGroup& group);
  void after_pre_forward(const ParameterGroup& group);
  void before_post_forward(const ParameterGroup& group);
  void before_pre_backward(const ParameterGroup& group);
  void before_post_backward(const ParameterGroup& group);
  void after_post_backward(const ParameterGroup& group);

  FullySharded& sharded_;
  Phase phase_ = Phase::pre_forward;
  std::size_t recomputed_ = no_place;  ///< outermost module that runs forward in backward
  Tensor unsharded_grad_;              ///< a variable of the wrapper around post_backward
};

}  // namespace shardscope::eager::fsdp2

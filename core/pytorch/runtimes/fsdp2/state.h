// The hooks that fully_shard puts on its modules.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/parameter_group.h"

namespace shardscope::eager::fsdp2 {

/// FSDPStateContext: shared by the states below one root.
struct StateContext {
  std::vector<State*> all_states;  ///< in named_modules() order
  const State* iter_forward_root = nullptr;
  bool final_callback_queued = false;
  bool is_last_backward = true;
};

/// FSDPState of torch 2.15, _fsdp_state.py: what one call of fully_shard made.
class State {
 public:
  /// Finds the state of a module; null: it has none.
  using StateOf = std::function<State*(const Module&)>;

  State(std::vector<Module*> modules, const MixedPrecisionPolicy& policy, bool automatic_reshard,
        std::shared_ptr<CommContext> comm, StateOf state_of);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const std::vector<Module*>& modules() const { return modules_; }
  /// Of each mesh one; none: it manages no parameters.
  const std::vector<std::unique_ptr<ParameterGroup>>& groups() const { return groups_; }
  /// The first of them, or null.
  ParameterGroup* group() const { return groups_.empty() ? nullptr : groups_.front().get(); }
  void set_groups(std::vector<std::unique_ptr<ParameterGroup>> groups);
  TrainingState training_state() const { return training_state_; }
  CommContext& comm() const { return *comm_; }

  std::vector<State*> forward_prefetch, backward_prefetch;  ///< set_modules_to_*_prefetch
  /// set_reshard_after_forward: the root then does as it is told, too.
  void choose_reshard() { automatic_reshard_ = false; }
  void set_is_last_backward(bool last) { context_->is_last_backward = last; }

 private:
  void register_hooks();
  void pre_forward(Session& s, Arguments& arguments);
  void post_forward(Session& s, Tensors& outputs);
  void root_pre_forward(Session& s, Arguments& arguments);
  void lazy_init(Session& s);
  void cast_inputs(Session& s, Arguments& arguments) const;
  void cast_outputs(Session& s, Tensors& outputs) const;
  void complete_partial_groups(Session& s, Tensors& outputs);
  void register_pre_backward_hook(Session& s, const Tensors& outputs);
  void pre_backward(Session& s);
  void final_callback(Session& s);
  void end_backward_iteration(Session& s);

  std::vector<Module*> modules_;
  std::vector<Module*> modules_to_run_;  ///< of a list: whose forward is still to come
  MixedPrecisionPolicy policy_;
  bool automatic_reshard_;
  bool is_initialized_ = false;  ///< lazily; as root or below one
  TrainingState training_state_ = TrainingState::idle;
  std::vector<std::unique_ptr<ParameterGroup>> groups_;
  std::shared_ptr<StateContext> context_ = std::make_shared<StateContext>();
  std::shared_ptr<CommContext> comm_;
  StateOf state_of_;
};

}  // namespace shardscope::eager::fsdp2

// Parameters that FSDP2 gathers and reduces together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/comm_context.h"
#include "core/pytorch/runtimes/fsdp2/reduce.h"

namespace shardscope::eager::fsdp2 {

/// What the set_* methods of an FSDPModule change.
struct GroupSwitches {
  bool reduce_grads = true;
  bool all_reduce_grads = true;
  bool reshard_after_backward = true;
  std::size_t reduce_scatter_max_input_buffers = 1;
  std::optional<double> gradient_divide_factor = {};
  bool force_sum_reduction_for_comms = false;
  bool reduce_scatter_unused_params = false;
  bool unshard_async_op = false;
  bool unshard_in_backward = true;
};

/// FSDPParamGroup of torch 2.15, _fsdp_param_group.py.
class ParameterGroup {
 public:
  ParameterGroup(Session& s, std::vector<Module*> modules, Parameters parameters, MeshInfoRef mesh,
                 MeshInfoRef post_forward_mesh, std::shared_ptr<CommContext> comm);

  const std::vector<Module*>& modules() const { return modules_; }
  const Parameters& parameters() const { return parameters_; }
  const MeshInfo& mesh() const { return *mesh_; }
  const MeshInfoRef& post_forward_mesh() const { return post_forward_mesh_; }
  void set_post_forward_mesh(MeshInfoRef mesh) { post_forward_mesh_ = std::move(mesh); }
  const MeshInfoRef& mesh_ref() const { return mesh_; }
  TrainingState training_state() const { return training_state_; }
  void set_training_state(TrainingState state) { training_state_ = state; }
  ShardedState sharded_state() const { return sharded_state_; }
  bool is_unsharded() const { return sharded_state_ == ShardedState::unsharded; }
  /// An all-gather has been issued and not yet waited for.
  bool has_pending_gather() const { return all_gather_result_.has_value(); }
  void share(std::shared_ptr<CommContext> comm) { comm_ = std::move(comm); }
  /// Its place among the groups of one call of fully_shard, which are of several meshes.
  void set_place(std::size_t place, std::size_t groups) {
    place_ = place;
    groups_ = groups;
  }

  GroupSwitches switches;

  void lazy_init(Session& s);
  void unshard(Session& s, bool asynchronous = false);
  void wait_for_unshard(Session& s);
  void reshard(Session& s);

  /// Registers the shards on the modules and frees what is gathered.
  void to_sharded();

  void pre_forward(Session& s, Arguments& arguments);
  void post_forward(Session& s);
  void pre_backward(Session& s, bool default_prefetch);
  void post_backward(Session& s);
  void finalize_backward(Session& s);

  enum class Pass : std::uint8_t { forward, backward };
  /// _prefetch_unshard: gathers this group early, as in the given pass.
  void prefetch(Session& s, Pass pass);

 private:
  bool reshards_after_forward() const { return post_forward_mesh_ != nullptr; }
  const ProcessGroup& all_gather_group() const;
  /// In a group of one rank the shard itself is copied. Returns the last parameter's input, which a
  /// local of wait_for_unshard holds until that returns.
  Tensor wait_alone(Session& s);
  void register_post_backward_hook(Session& s, Arguments& arguments);
  void backward_prefetch(Session& s);
  /// Of several groups the second one gathers those of the modules that ran before.
  void prefetch_modules_before(Session& s, std::size_t index);
  void to_sharded_post_forward(Session& s);
  void to_unsharded();

  void set_unsharded_grad_dtypes(Session& s, bool defer_upcast);
  Dtype reduce_dtype(const std::vector<Parameter*>& parameters) const;
  void take_gradients(Session& s, std::vector<Parameter*>& parameters, Tensors& gradients);
  void recycle_input_buffers(Session& s);
  void wait_for_post_backward(Session& s);
  void reduce(Session& s, std::vector<Parameter*> parameters, Tensors gradients);
  Tensor prepare_partial_output(Session& s, const std::vector<Parameter*>& parameters, Dtype dtype);
  bool is_partial_layout(const std::vector<Parameter*>& parameters) const;

  std::vector<Module*> modules_;
  std::size_t place_ = 0, groups_ = 1;
  Parameters parameters_;
  MeshInfoRef mesh_, post_forward_mesh_;
  std::shared_ptr<CommContext> comm_;
  TrainingState training_state_ = TrainingState::idle;
  ShardedState sharded_state_ = ShardedState::sharded;
  bool has_reset_sharded_params_ = false;
  Tensor empty_output_;  ///< what a group of one rank hands on as its gathered buffer
  std::vector<std::size_t> post_forward_indices_;

  std::optional<AllGatherResult> all_gather_result_;
  std::optional<EventId> post_reduce_event_;
  std::optional<EventId> reshard_after_forward_event_;
  Tensor partial_reduce_output_;  ///< of HSDP: gradients that wait for their all-reduce
  std::vector<std::pair<const Parameter*, std::int64_t>> partial_layout_;  ///< padded elements
  struct AllReduceState {
    Tensor input;
    EventId event;
  };
  std::optional<AllReduceState> all_reduce_state_;
};

}  // namespace shardscope::eager::fsdp2

// FSDP2: torch.distributed.fsdp.fully_shard and the methods of the modules that it makes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/state.h"

namespace shardscope::eager::fsdp2 {

/// Parameters of one call that are sharded over one mesh.
struct MeshParameters {
  MeshInfoRef mesh;
  std::vector<NamedParameter> parameters;
};

/// All that calls of fully_shard made of one model. It must outlive the model's forwards and
/// backwards.
class FullySharded final : public ShardedParameters {
 public:
  FullySharded(Session& s, ProcessGroups& groups) : s_(s), groups_(groups) {}
  FullySharded(const FullySharded&) = delete;
  FullySharded& operator=(const FullySharded&) = delete;

  /// Not owned.
  void watch(Watcher& watcher) { watchers_.push_back(&watcher); }

  /// FSDPMeshInfo or HSDPMeshInfo of a mesh over the world: {shards} or {replicas, shards} ranks.
  MeshInfoRef mesh(const std::vector<int>& shape);

  /// fully_shard(modules): several are one group, one is called as itself. Bottom up: the model
  /// last. Source: torch 2.15, _fully_shard.py, _fsdp_init.py. Throws Refusal where that raises.
  State& fully_shard(const std::vector<Module*>& modules, const Options& options);

  /// Null: fully_shard was not called on it.
  State* state_of(const Module& module) const;
  /// That the tensor is the sharded one of; null: no group manages it.
  const Parameter* parameter_of(const Tensor& sharded) const;
  bool is_sharded(const Tensor& parameter) const override;
  Tensor full_tensor(Session& s, const Tensor& parameter) const override;
  const std::vector<std::unique_ptr<State>>& states() const { return states_; }
  /// This process's, in the world.
  int rank() const { return groups_.rank(); }

  /// What FSDPModule._apply does after to_empty() and the like: the shards may be other tensors.
  void reset_sharded_params();
  /// The same for one module's groups.
  void reset_sharded_params(const Module& module);

  // The methods of FSDPModule. They go for all modules below, where not said otherwise.
  void set_requires_gradient_sync(Module& module, bool on);
  void set_requires_all_reduce(Module& module, bool on);
  void set_is_last_backward(Module& module, bool on);
  void set_reshard_after_forward(Module& module, bool on);
  void set_keep_unsharded_storage(Module& module, bool on);
  /// One change of the switches of every group below.
  void set(Module& module, const std::function<void(GroupSwitches&)>& change);
  /// set_separate_reduce_scatter_group.
  void set_separate_reduce_scatter_group(Module& module, bool on);
  /// Only the module itself.
  void set_forward_prefetch(Module& module, const std::vector<Module*>& targets);
  void set_backward_prefetch(Module& module, const std::vector<Module*>& targets);
  void set_unshard_in_backward(Module& module, bool on);
  void set_gradient_divide_factor(Module& module, double factor);
  void set_force_sum_reduction_for_comms(Module& module, bool on);
  void unshard(Module& module, bool asynchronous = false);
  void wait_for_unshard(Module& module);
  void reshard(Module& module);

 private:
  State& state_at(Module& module) const;
  void for_each_group(Module& module, const std::function<void(State&, ParameterGroup&)>& visit);
  MeshInfoRef post_forward_mesh(const ReshardAfterForward& reshard, const MeshInfoRef& mesh);
  std::unique_ptr<ParameterGroup> group_of(const std::vector<Module*>& modules,
                                           const MeshParameters& part, const Options& options,
                                           std::shared_ptr<CommContext> comm);

  Session& s_;
  ProcessGroups& groups_;
  std::vector<Watcher*> watchers_;
  std::vector<std::unique_ptr<State>> states_;
  std::map<const Module*, State*> state_of_;  // looked up, never walked
};

}  // namespace shardscope::eager::fsdp2

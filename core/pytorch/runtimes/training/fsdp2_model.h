// A model after calls of fully_shard.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/fully_shard.h"
#include "core/pytorch/runtimes/training/parallel_model.h"

namespace shardscope::eager {

/// One call of fully_shard, on modules of the model that make one group.
struct FullyShardStep {
  std::vector<Module*> modules;
  fsdp2::Options options;
};

class Fsdp2Model final : public ParallelModel {
 public:
  /// The root's call is the last. `groups` must outlive the model.
  Fsdp2Model(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
             const std::vector<int>& mesh, std::vector<FullyShardStep> calls);
  Fsdp2Model(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
             fsdp2::MeshInfoRef mesh, std::vector<FullyShardStep> calls);

  Module& module() override { return *module_; }
  std::shared_ptr<void> without_sync(Session& s) override;
  void clip(Session& s) override;
  InfinitySharing infinity_sharing() override { return {.of_each_check = mesh_->shard}; }
  NamedTensors full_state_dict(Session& s, const FullStateDict& wanted) override;
  std::optional<Tensors> full_optimizer_state(Session& s, const ParameterOptimizer& optimizer,
                                              bool cpu_offload) override;
  Bytes save_shards(Session& s, const ParameterOptimizer& optimizer, bool trainable_only) override;
  fsdp2::FullySharded& sharded() { return sharded_; }

 private:
  void shard(std::vector<FullyShardStep> calls);

  std::shared_ptr<Module> module_;
  fsdp2::FullySharded sharded_;
  fsdp2::MeshInfoRef mesh_;
};

}  // namespace shardscope::eager

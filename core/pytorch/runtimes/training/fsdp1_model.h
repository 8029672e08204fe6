// A model under FullyShardedDataParallel.
#pragma once

#include <memory>

#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"
#include "core/pytorch/runtimes/fsdp1/state_dict.h"
#include "core/pytorch/runtimes/training/parallel_model.h"

namespace shardscope::eager {

class Fsdp1Model final : public ParallelModel {
 public:
  Fsdp1Model(Session& s, fsdp1::FullySharded::Input input);

  Module& module() override { return sharded_.module(); }
  Tensors parameters() override { return sharded_.parameters(); }
  std::shared_ptr<void> without_sync(Session& s) override;
  void clip(Session& s) override;
  InfinitySharing infinity_sharing() override { return {.of_result = world_}; }
  /// FULL_STATE_DICT; with cpu_offload on rank 0 alone, as accelerate asks for it.
  NamedTensors full_state_dict(Session& s, const FullStateDict& wanted) override;
  std::optional<Tensors> full_optimizer_state(Session& s, const ParameterOptimizer& optimizer,
                                              bool cpu_offload) override;
  Bytes save_shards(Session& s, const ParameterOptimizer& optimizer, bool trainable_only) override;
  void load_state(Session& s, bool shards, bool trainable_only) override;
  Bytes largest_unit(bool trains) const override;
  fsdp1::FullySharded& sharded() { return sharded_; }

 private:
  void drop_frozen(fsdp1::StateDict& dict) const;

  const ProcessGroup* world_;
  fsdp1::FullySharded sharded_;
};

}  // namespace shardscope::eager

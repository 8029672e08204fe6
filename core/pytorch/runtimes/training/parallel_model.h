// A model under a runtime's rules, as a training loop sees it.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/grad_scaler.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "core/pytorch/runtimes/deepspeed/engine.h"
#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

namespace shardscope::eager {

class ParallelModel {
 public:
  virtual ~ParallelModel() = default;
  /// What is called with a batch.
  virtual Module& module() = 0;
  /// What the training loop's optimizer is given; none where `engine` has its own.
  virtual Tensors parameters() = 0;
  /// A micro-batch without communication of gradients; ends when the scope is let go.
  virtual std::shared_ptr<void> without_sync(Session& s) = 0;
  /// Clips the gradients to a norm, as one does under this runtime.
  virtual void clip(Session& s);
  /// How a scaler of float16's loss tells other ranks of an infinity.
  virtual InfinitySharing infinity_sharing() { return {}; }
  /// What is called with a batch and with the loss in the place of the module, and counts
  /// micro-batches, clips, steps and clears gradients itself; or null.
  virtual deepspeed::Engine* engine() { return nullptr; }
  /// What FSDP1 made; null: another runtime.
  virtual fsdp1::FullySharded* flattened() { return nullptr; }
  /// What fully_shard made; null: another runtime.
  virtual fsdp2::FullySharded* fully_sharded() { return nullptr; }
};

/// The model alone, on one device.
std::unique_ptr<ParallelModel> plain_model(std::shared_ptr<Module> module);

/// DistributedDataParallel. `group` must outlive the model.
std::unique_ptr<ParallelModel> ddp_model(Session& s, std::shared_ptr<Module> module,
                                         const ProcessGroup& group, ddp::Options options);

std::unique_ptr<ParallelModel> fsdp1_model(Session& s, fsdp1::FullySharded::Input input);

/// One call of fully_shard, on modules of the model that make one group.
struct FullyShardStep {
  std::vector<Module*> modules;
  fsdp2::Options options;
};
/// The model after these calls, the root's last. `groups` must outlive it.
std::unique_ptr<ParallelModel> fsdp2_model(Session& s, std::shared_ptr<Module> module,
                                           ProcessGroups& groups, const std::vector<int>& mesh,
                                           std::vector<FullyShardStep> calls);

/// DeepSpeed's ZeRO, stages 1, 2 and 3. `groups` must outlive the model.
std::unique_ptr<ParallelModel> deepspeed_model(Session& s, std::shared_ptr<Module> module,
                                               ProcessGroups& groups,
                                               const DeepSpeedSettings& settings,
                                               const OptimizerSettings& optimizer);

}  // namespace shardscope::eager

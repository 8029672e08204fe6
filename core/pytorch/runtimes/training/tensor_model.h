// A model that from_pretrained divided by its own tensor-parallel plan and, over another axis, by
// its plan for FSDP2, as transformers' Trainer trains it.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/runtimes/tensor/tensor_parallel.h"
#include "core/pytorch/runtimes/training/fsdp2_model.h"
#include "core/pytorch/runtimes/training/parallel_model.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope::eager {

class TensorModel final : public ParallelModel {
 public:
  /// `module` is on the meta device. `sharding`: null without an axis of shards. Both, and
  /// `groups`, must outlive the model.
  TensorModel(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
              const TensorSetup& setup, const Fsdp2Setup* sharding);

  Module& module() override { return *module_; }
  std::shared_ptr<void> without_sync(Session& s) override;
  /// Trainer._clip_grad_norm: a norm of the gradients of each mesh, and one of these.
  void clip(Session& s) override;
  bool rewrites_gradients() const override { return !sharded_; }
  Tensor read_gradient(Session& s, const Tensor& parameter, const Tensor& gradient) const override;
  NamedTensors full_state_dict(Session& s, const FullStateDict& wanted) override;

 private:
  void average_gradients();
  Tensor norm_of(Session& s, const Tensors& gradients, bool divided) const;

  Session& s_;
  std::shared_ptr<Module> module_;
  parallel::Pending pending_;
  const ProcessGroup& world_;
  const ProcessGroup* shards_ = nullptr;
  std::unique_ptr<parallel::TensorParallel> tensor_;
  std::unique_ptr<Fsdp2Model> sharded_;
  bool replicates_ = false;
  bool syncs_ = true;
};

}  // namespace shardscope::eager

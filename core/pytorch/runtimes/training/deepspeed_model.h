// A model under DeepSpeed's ZeRO, stages 1, 2 and 3.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/pytorch/runtimes/deepspeed/engine.h"
#include "core/pytorch/runtimes/deepspeed/inference_engine.h"
#include "core/pytorch/runtimes/training/parallel_model.h"

namespace shardscope::eager {

class DeepSpeedModel final : public ParallelModel, private ModelEngine {
 public:
  /// `groups` must outlive the model.
  DeepSpeedModel(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                 const DeepSpeedSettings& settings, const OptimizerSettings& optimizer,
                 bool groups_by_decay = false);

  Module& module() override { return *module_; }
  Tensors parameters() override { return {}; }
  ModelEngine* engine() override { return this; }
  /// Below stage 3 each rank has all on its host (clone_tensors_for_torch_save).
  NamedTensors full_state_dict(Session& s, const FullStateDict& wanted) override;

 private:
  Tensors forward(Arguments batch) override;
  void backward(const Tensor& loss) override { engine_.backward(loss); }
  void step() override { engine_.step(); }
  void leave_out(int micro_batches) override { engine_.leave_out(micro_batches); }
  std::vector<HeldTensor> held() const override { return engine_.held(); }
  const std::deque<ParameterOptimizer>& optimizers() const override;

  std::shared_ptr<Module> module_;
  deepspeed::Engine engine_;
};

/// The same for a model that never trains.
class DeepSpeedReference final : public ParallelModel {
 public:
  /// `groups` must outlive the model.
  DeepSpeedReference(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                     const DeepSpeedSettings& settings)
      : module_(std::move(module)), engine_(s, groups, *module_, settings) {}

  Module& module() override { return *module_; }

 private:
  std::shared_ptr<Module> module_;
  deepspeed::InferenceEngine engine_;
};

}  // namespace shardscope::eager

#include "core/pytorch/runtimes/training/deepspeed_model.h"

#include <utility>

namespace shardscope::eager {

DeepSpeedModel::DeepSpeedModel(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                               const DeepSpeedSettings& settings,
                               const OptimizerSettings& optimizer)
    : module_(std::move(module)),
      engine_(s, groups, {.model = *module_, .settings = settings, .optimizer = optimizer}) {}

NamedTensors DeepSpeedModel::full_state_dict(Session& s, const FullStateDict& wanted) {
  if (engine_.stage() == 3) return engine_.consolidated(wanted.trainable_only);
  return ParallelModel::full_state_dict(s, wanted);
}

Tensors DeepSpeedModel::forward(Arguments batch) { return engine_.forward(std::move(batch)); }

const std::deque<ParameterOptimizer>& DeepSpeedModel::optimizers() const {
  return engine_.master_optimizer().groups();
}

}  // namespace shardscope::eager

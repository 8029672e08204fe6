#include "core/pytorch/runtimes/training/deepspeed_model.h"

#include <regex>
#include <utility>

namespace shardscope::eager {

namespace {

/// Trainer.get_decay_parameter_names: not what is named so, and no parameter of an nn.LayerNorm.
bool decays(const NamedParameter& parameter) {
  static const std::regex undecayed(R"(bias|layernorm|rmsnorm|(^|\.)norm($|\.)|_norm($|\.))",
                                    std::regex::icase);
  return parameter.module->class_name != "LayerNorm" &&
         !std::regex_search(parameter.name, undecayed);
}

/// DeepSpeed drops a group without parameters. Source: deepspeed 0.19.8 engine.py,
/// _configure_optimizer.
std::vector<deepspeed::ParameterIndices> groups_by_decay_of(Module& module) {
  const std::vector<NamedParameter> parameters = named_parameters_of(module);
  std::vector<deepspeed::ParameterIndices> groups(2);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].tensor().requires_grad()) groups[decays(parameters[i]) ? 0 : 1].push_back(i);
  std::erase_if(groups, [](const deepspeed::ParameterIndices& group) { return group.empty(); });
  return groups;
}

}  // namespace

DeepSpeedModel::DeepSpeedModel(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                               const DeepSpeedSettings& settings,
                               const OptimizerSettings& optimizer, bool groups_by_decay)
    : module_(std::move(module)),
      engine_(
          s, groups,
          {.model = *module_,
           .settings = settings,
           .optimizer_groups = groups_by_decay ? groups_by_decay_of(*module_)
                                               : std::vector<deepspeed::ParameterIndices>(),
           .optimizer = optimizer}) {}

NamedTensors DeepSpeedModel::full_state_dict(Session& s, const FullStateDict& wanted) {
  if (engine_.stage() == 3) return engine_.consolidated(wanted.trainable_only);
  return ParallelModel::full_state_dict(s, wanted);
}

Tensors DeepSpeedModel::forward(Arguments batch) { return engine_.forward(std::move(batch)); }

const std::deque<ParameterOptimizer>& DeepSpeedModel::optimizers() const {
  return engine_.master_optimizer().groups();
}

}  // namespace shardscope::eager

#include "core/pytorch/runtimes/deepspeed/parameter_tree.h"

namespace shardscope::eager::deepspeed {

ModuleTree parameter_tree(const std::vector<NamedParameter>& parameters) {
  ModuleTree tree;
  tree.modules.emplace_back();
  for (const NamedParameter& p : parameters) {
    const Dims& sizes = p.tensor().sizes();
    tree.modules.front().parameters.push_back(static_cast<std::int32_t>(tree.parameters.size()));
    tree.parameters.push_back({.name = p.name,
                               .shape = Shape(sizes.begin(), sizes.end()),
                               .dtype = p.tensor().dtype(),
                               .trainable = p.tensor().requires_grad(),
                               .same_as = {}});
  }
  return tree;
}

OptimizerGroups optimizer_groups(const std::vector<ParameterIndices>& groups) {
  OptimizerGroups all;
  for (const ParameterIndices& group : groups) all.emplace_back(group.begin(), group.end());
  return all;
}

ZeroSettings zero_settings(const Setup& setup) {
  const DeepSpeedSettings& from = setup.settings;
  ZeroSettings settings;
  settings.stage = from.stage;
  settings.world = setup.group.size();
  if (!from.precision_of_weights) settings.precision = from.precision;
  settings.gradient_accumulation = from.accumulation_dtype;
  settings.offload_optimizer = from.offload_optimizer.device != OffloadDevice::none;
  settings.round_robin_gradients = from.round_robin_gradients;
  settings.parameter_alignment = from.parameter_alignment;
  settings.sub_group_size = from.sub_group_elements;
  settings.parameter_persistence_threshold = from.param_persistence_elements;
  settings.model_persistence_threshold = from.model_persistence_elements;
  return settings;
}

}  // namespace shardscope::eager::deepspeed

#include "core/pytorch/plans/plan_states.h"
#include "core/schedule/model_states.h"

namespace shardscope {

std::int64_t optimizer_tensors(const Optimizer& optimizer) {
  if (optimizer.kind == OptimizerKind::adamw) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

ModelStates states_in(Dtype dtype, const StateElements& elements, const Optimizer& optimizer) {
  return {.parameters = bytes_of(elements.parameters, dtype),
          .gradients = bytes_of(elements.gradients, dtype),
          .optimizer_states = bytes_of(elements.states * optimizer_tensors(optimizer), dtype)};
}

ModelStates operator+(const ModelStates& a, const ModelStates& b) {
  return {.parameters = a.parameters + b.parameters,
          .gradients = a.gradients + b.gradients,
          .optimizer_states = a.optimizer_states + b.optimizer_states};
}

ModelStates operator-(const ModelStates& a, const ModelStates& b) {
  return {.parameters = a.parameters - b.parameters,
          .gradients = a.gradients - b.gradients,
          .optimizer_states = a.optimizer_states - b.optimizer_states};
}

Dtype held_dtype(const TreeParameter& parameter, bool float32_parameters) {
  return float32_parameters && parameter.trainable ? Dtype::float32 : parameter.dtype;
}

ModelStates whole_states(const ModuleTree& tree, const Optimizer& optimizer,
                         bool float32_parameters) {
  ModelStates sum;
  for (const TreeParameter& parameter : tree.parameters) {
    if (parameter.same_as) continue;
    const std::int64_t elements = parameter.elements();
    const std::int64_t trained = parameter.trainable ? elements : 0;
    sum = sum + states_in(held_dtype(parameter, float32_parameters), {elements, trained, trained},
                          optimizer);
  }
  return sum;
}

}  // namespace shardscope

#include "core/pytorch/runtimes/common/optimizer.h"

#include <algorithm>

#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/runtimes/common/optimizer_group.h"
#include "core/pytorch/runtimes/common/record_function.h"

namespace shardscope::eager {

ParameterOptimizer::ParameterOptimizer(Tensors parameters, const OptimizerSettings& settings)
    : parameters_(std::move(parameters)), settings_(settings), states_(parameters_.size()) {}

std::vector<ParameterOptimizer::Group> ParameterOptimizer::groups() const {
  // _group_tensors_by_device_and_dtype; the loop over tensors takes them as they come.
  const bool together = settings_.implementation == OptimizerImplementation::loop;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (!parameter.grad()) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return together || (g.parameters[0].dtype() == parameter.dtype() &&
                          g.parameters[0].device() == parameter.device());
    });
    // std::unordered_map lists what came last first.
    if (group == groups.end()) group = groups.insert(groups.begin(), Group{});
    group->places.push_back(i);
    group->parameters.push_back(parameter);
    group->gradients.push_back(parameter.grad());
  }
  return groups;
}

Tensor ParameterOptimizer::read_gradient(Session& s, const Tensor& parameter,
                                         const Tensor& gradient) const {
  return gradient_view_ ? gradient_view_(s, parameter, gradient) : gradient;
}

Tensors ParameterOptimizer::read_gradients(Session& s, const Group& group) const {
  if (!gradient_view_) return group.gradients;
  Tensors read;
  for (std::size_t i = 0; i < group.parameters.size(); ++i)
    read.push_back(gradient_view_(s, group.parameters[i], group.gradients[i]));
  return read;
}

void ParameterOptimizer::step(Session& s, const FusedScaling& scaling) {
  const RecordFunction profiled(s);
  const NoGrad no_grad(s);
  if (settings_.bitsandbytes) return bitsandbytes_step(s);
  if (settings_.rule == OptimizerRule::adafactor) return adafactor_step(s);
  if (settings_.rule == OptimizerRule::muon) return muon_step(s);
  if (settings_.rule != OptimizerRule::sgd) make_adam_states(s);
  std::vector<Group> all = groups();
  Group* before = nullptr;
  for (Group& group : all) {
    group.before = before;
    before = &group;
    if (settings_.rule == OptimizerRule::sgd)
      sgd(s, group, scaling);
    else
      adam(s, group, scaling);
  }
  if (before) let_go_of(before->root);
}

void ParameterOptimizer::zero_grad(Session& s, bool set_to_none) {
  const RecordFunction profiled(s);
  if (set_to_none) {
    for (const Tensor& parameter : parameters_) parameter.set_grad({});
    return;
  }
  const NoGrad no_grad(s);
  for (const Group& group : groups()) {
    if (settings_.implementation == OptimizerImplementation::loop)
      for (const Tensor& gradient : group.gradients) zero_(s, gradient);
    else
      foreach_in_place(s, foreach_zero_, {&group.gradients});
  }
}

}  // namespace shardscope::eager

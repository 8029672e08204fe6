// SGD: torch/optim/sgd.py of torch 2.15. The momentum is the state's first moment.
#include <algorithm>

#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/optimizer_group.h"

namespace shardscope::eager {
namespace {

/// A Python float whose value decides nothing here.
constexpr double any_number = 0.5;

}  // namespace

void ParameterOptimizer::sgd(Session& s, Group& group, const FusedScaling& scaling) {
  switch (settings_.implementation) {
    case OptimizerImplementation::foreach:
      return sgd_foreach(s, group);
    case OptimizerImplementation::fused:
      return sgd_fused(s, group, scaling);
    case OptimizerImplementation::loop:
      return sgd_loop(s, group);
  }
}

void ParameterOptimizer::sgd_foreach(Session& s, Group& group) {
  Tensors gradients = read_gradients(s, group);
  if (settings_.weight_decay)
    gradients = foreach_new(s, foreach_add_list, {&gradients, &group.parameters});
  if (settings_.momentum) {
    const bool all_there = std::all_of(group.places.begin(), group.places.end(), [&](auto place) {
      return states_[place].first_moment.defined();
    });
    if (all_there) {
      const Tensors momenta = group.of(states_, &State::first_moment);
      foreach_in_place(s, foreach_mul_scalar_, {&momenta});
      foreach_in_place(s, foreach_add_list_, {&momenta, &gradients});
    }
    for (std::size_t i = 0; i < group.places.size() && !all_there; ++i) {
      Tensor& momentum = states_[group.places[i]].first_moment;
      if (!momentum)
        momentum = clone(s, detach(s, gradients[i]));
      else
        add_(s, mul_(s, momentum, any_number), gradients[i]);
    }
    const Tensors momenta = group.of(states_, &State::first_moment);
    if (settings_.nesterov)
      foreach_in_place(s, foreach_add_list_, {&gradients, &momenta});
    else
      gradients = momenta;
  }
  foreach_in_place(s, foreach_add_list_, {&group.parameters, &gradients});
}

void ParameterOptimizer::sgd_fused(Session& s, Group& group, const FusedScaling& scaling) {
  for (std::size_t i = 0; i < group.places.size() && settings_.momentum; ++i) {
    Tensor& momentum = states_[group.places[i]].first_moment;
    if (!momentum) momentum = empty_like(s, group.gradients[i]);
  }
  const Tensors momenta = settings_.momentum ? group.of(states_, &State::first_moment) : Tensors();
  const Tensors scalars{scaling.scale, scaling.found_inf};
  const Tensors gradients = read_gradients(s, group);
  foreach_in_place(s, fused_sgd_, {&group.parameters, &gradients, &momenta, &scalars});
}

void ParameterOptimizer::sgd_loop(Session& s, Group& group) {
  Tensor gradient;
  for (std::size_t i = 0; i < group.places.size(); ++i) {
    const Tensor& parameter = group.parameters[i];
    gradient = read_gradient(s, parameter, group.gradients[i]);
    if (settings_.weight_decay) gradient = add(s, gradient, parameter);
    if (settings_.momentum) {
      Tensor& momentum = states_[group.places[i]].first_moment;
      if (!momentum)
        momentum = clone(s, detach(s, gradient));
      else
        add_(s, mul_(s, momentum, any_number), gradient);
      gradient = settings_.nesterov ? add(s, gradient, momentum) : momentum;
    }
    add_(s, parameter, gradient);
  }
}

}  // namespace shardscope::eager

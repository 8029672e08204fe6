// Adam and AdamW: torch/optim/adam.py of torch 2.15.
#include "core/base/error.h"
#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/runtimes/common/optimizer_group.h"

namespace shardscope::eager {
namespace {

constexpr Operator lift_fresh{"aten.lift_fresh.default", OperatorKind::host};
constexpr Operator lerp_{"aten.lerp_.Scalar", OperatorKind::pointwise};
constexpr Operator addcmul_{"aten.addcmul_.default", OperatorKind::pointwise};
constexpr Operator addcdiv_{"aten.addcdiv_.default", OperatorKind::pointwise};
// Of capturable alone.
constexpr Operator foreach_pow_scalar_and_tensor{"aten._foreach_pow.ScalarAndTensor",
                                                 OperatorKind::pointwise};
constexpr Operator foreach_sub_scalar_{"aten._foreach_sub_.Scalar", OperatorKind::pointwise};
constexpr Operator foreach_neg_{"aten._foreach_neg_.default", OperatorKind::pointwise};
constexpr Operator foreach_div_scalar_{"aten._foreach_div_.Scalar", OperatorKind::pointwise};
constexpr Operator foreach_div_tensors_{"aten._foreach_div_.List", OperatorKind::pointwise};
constexpr Operator foreach_reciprocal_{"aten._foreach_reciprocal_.default",
                                       OperatorKind::pointwise};
constexpr Operator foreach_sqrt_{"aten._foreach_sqrt_.default", OperatorKind::pointwise};
constexpr Operator foreach_add_scalar{"aten._foreach_add.Scalar", OperatorKind::pointwise};
constexpr Operator foreach_addcdiv_scalar_{"aten._foreach_addcdiv_.Scalar",
                                           OperatorKind::pointwise};
/// A Python float whose value decides nothing here.
constexpr double any_number = 0.5;

/// torch.tensor(0.0, device="cpu").
Tensor cpu_number(Session& s) {
  const Tensor number = allocate(s, {Dtype::float32, Device::cpu}, {});
  dispatched(s, lift_fresh, {&number}, {&number});
  return number;
}

/// tensor.item() of each, for the bias corrections.
void read_steps(Session& s, const Tensors& steps) {
  for (const Tensor& step : steps) item(s, step);
}

}  // namespace

void ParameterOptimizer::make_adam_states(Session& s) {
  const bool on_device =
      settings_.implementation == OptimizerImplementation::fused || settings_.capturable;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    State& state = states_[i];
    if (!parameter.grad() || state.step) continue;
    state.step = on_device ? zeros(s, {}, {Dtype::float32, parameter.device()}) : cpu_number(s);
    state.first_moment = zeros_like(s, parameter);
    state.second_moment = zeros_like(s, parameter);
    if (settings_.amsgrad) state.greatest_moment = zeros_like(s, parameter);
  }
}

void ParameterOptimizer::adam(Session& s, Group& group, const FusedScaling& scaling) {
  switch (settings_.implementation) {
    case OptimizerImplementation::foreach:
      return adam_foreach(s, group);
    case OptimizerImplementation::fused:
      return adam_fused(s, group, scaling);
    case OptimizerImplementation::loop:
      if (settings_.capturable)
        throw Error({.where = "optimizer",
                     .what = "capturable is modelled with foreach and fused, not with the loop",
                     .way_out = "choose foreach or fused"});
      return adam_loop(s, group);
  }
}

void ParameterOptimizer::adam_foreach(Session& s, Group& group) {
  const Tensors steps = group.of(states_, &State::step);
  const Tensors first = group.of(states_, &State::first_moment);
  const Tensors second = group.of(states_, &State::second_moment);
  if (settings_.capturable)
    foreach_in_place(s, foreach_add_scalar_, {&steps});
  else
    foreach_in_place(s, foreach_add_tensor_, steps, cpu_number(s));
  Tensors gradients = group.gradients;
  if (settings_.weight_decay && settings_.rule == OptimizerRule::adamw)
    foreach_in_place(s, foreach_mul_scalar_, {&group.parameters});
  else if (settings_.weight_decay)
    gradients = foreach_new(s, foreach_add_list, {&gradients, &group.parameters});
  const bool decays_gradients = settings_.weight_decay && settings_.rule != OptimizerRule::adamw;
  const auto read = [&] { return decays_gradients ? gradients : read_gradients(s, group); };
  {
    const Tensors once = read();
    foreach_in_place(s, foreach_lerp_scalar_, {&first, &once});
  }
  foreach_in_place(s, foreach_mul_scalar_, {&second});
  {
    const Tensors left = read(), right = read();
    foreach_in_place(s, foreach_addcmul_scalar_, {&second, &left, &right});
  }
  let_go_of(gradients);
  if (settings_.capturable)
    adam_foreach_update_captured(s, group, steps);
  else
    adam_foreach_update(s, group, steps);
}

void ParameterOptimizer::adam_foreach_update(Session& s, Group& group, const Tensors& steps) {
  const Tensors first = group.of(states_, &State::first_moment);
  const Tensors second = group.of(states_, &State::second_moment);
  const Tensors greatest = group.of(states_, &State::greatest_moment);
  read_steps(s, steps);
  read_steps(s, steps);
  if (settings_.amsgrad) foreach_in_place(s, foreach_maximum_list_, {&greatest, &second});
  group.root = foreach_new(s, foreach_sqrt, {settings_.amsgrad ? &greatest : &second});
  if (group.before) let_go_of(group.before->root);
  const Tensors& root = group.root;
  foreach_in_place(s, foreach_div_list_, {&root});
  if (settings_.denominator_apart) {
    group.denominator = foreach_new(s, foreach_add_scalar, {&root});
    if (group.before) let_go_of(group.before->denominator);
  } else {
    foreach_in_place(s, foreach_add_scalar_, {&root});
  }
  const Tensors& denominator = settings_.denominator_apart ? group.denominator : root;
  foreach_in_place(s, foreach_addcdiv_list_, {&group.parameters, &first, &denominator});
}

void ParameterOptimizer::adam_foreach_update_captured(Session& s, Group& group,
                                                      const Tensors& steps) {
  const Tensors first = group.of(states_, &State::first_moment);
  const Tensors second = group.of(states_, &State::second_moment);
  const Tensors greatest = group.of(states_, &State::greatest_moment);
  const Tensors correction1 = foreach_new(s, foreach_pow_scalar_and_tensor, {&steps});
  const Tensors correction2 = foreach_new(s, foreach_pow_scalar_and_tensor, {&steps});
  foreach_in_place(s, foreach_sub_scalar_, {&correction1});
  foreach_in_place(s, foreach_sub_scalar_, {&correction2});
  foreach_in_place(s, foreach_neg_, {&correction2});
  foreach_in_place(s, foreach_div_scalar_, {&correction1});
  foreach_in_place(s, foreach_reciprocal_, {&correction1});
  foreach_in_place(s, foreach_sqrt_, {&correction2});
  if (settings_.amsgrad) foreach_in_place(s, foreach_maximum_list_, {&greatest, &second});
  Tensors root = foreach_new(s, foreach_sqrt, {settings_.amsgrad ? &greatest : &second});
  foreach_in_place(s, foreach_div_tensors_, {&root, &correction2});
  foreach_in_place(s, foreach_add_scalar_, {&root});
  foreach_in_place(s, foreach_div_tensors_, {&root, &correction1});
  foreach_in_place(s, foreach_addcdiv_scalar_, {&group.parameters, &first, &root});
}

void ParameterOptimizer::adam_fused(Session& s, Group& group, const FusedScaling& scaling) {
  const Tensors steps = group.of(states_, &State::step);
  const Tensors first = group.of(states_, &State::first_moment);
  const Tensors second = group.of(states_, &State::second_moment);
  const Tensors greatest =
      settings_.amsgrad ? group.of(states_, &State::greatest_moment) : Tensors();
  const Tensors scalars{scaling.scale, scaling.found_inf};
  foreach_in_place(s, foreach_add_scalar_, {&steps});
  {
    const Tensors gradients = read_gradients(s, group);
    foreach_in_place(s, settings_.rule == OptimizerRule::adamw ? fused_adamw_ : fused_adam_,
                     {&group.parameters, &gradients, &first, &second, &greatest, &steps, &scalars});
  }
  // A step that found an infinity does not count.
  const Tensors found_inf(steps.size(), scaling.found_inf);
  if (scaling.found_inf) foreach_in_place(s, foreach_sub_list_, {&steps, &found_inf});
}

/// A Python name keeps its tensor until it is bound anew: `denominator` of the parameter before is
/// still there while the next one is made.
void ParameterOptimizer::adam_loop(Session& s, Group& group) {
  Tensor gradient;
  Tensor denominator;
  for (std::size_t i = 0; i < group.places.size(); ++i) {
    const Tensor& parameter = group.parameters[i];
    const State& state = states_[group.places[i]];
    gradient = group.gradients[i];
    add_(s, state.step, 1);
    if (settings_.weight_decay && settings_.rule == OptimizerRule::adamw)
      mul_(s, parameter, any_number);
    else if (settings_.weight_decay)
      gradient = add(s, gradient, parameter);
    {
      const Tensor read = read_gradient(s, parameter, gradient);
      dispatched(s, lerp_, {&state.first_moment, &read}, {&state.first_moment});
    }
    mul_(s, state.second_moment, any_number);
    {
      const Tensor left = read_gradient(s, parameter, gradient);
      const Tensor right = read_gradient(s, parameter, gradient);
      dispatched(s, addcmul_, {&state.second_moment, &left, &right}, {&state.second_moment});
    }
    item(s, state.step);
    Tensor largest = state.second_moment;
    if (settings_.amsgrad) {
      static constexpr Operator maximum_out{"aten.maximum.out", OperatorKind::pointwise};
      dispatched(s, maximum_out, {&state.greatest_moment, &state.second_moment},
                 {&state.greatest_moment});
      largest = state.greatest_moment;
    }
    denominator = add_(s, div(s, sqrt(s, largest), any_number), any_number);
    dispatched(s, addcdiv_, {&parameter, &state.first_moment, &denominator}, {&parameter});
  }
}

}  // namespace shardscope::eager

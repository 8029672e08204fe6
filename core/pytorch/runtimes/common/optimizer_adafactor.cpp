// transformers' Adafactor as its Trainer makes it: optimization.py of transformers 5.24.
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager {
namespace {

/// A Python float whose value decides nothing here.
constexpr double any_number = 0.5;

bool is_half(const Tensor& tensor) {
  return tensor.dtype() == Dtype::bfloat16 || tensor.dtype() == Dtype::float16;
}

/// torch.zeros(sizes).to(gradient): made on the host.
Tensor zeros_from_host(Session& s, const Dims& sizes, const Tensor& gradient) {
  return to(s, zeros(s, sizes, {Dtype::float32, Device::cpu}),
            {.dtype = gradient.dtype(), .device = gradient.device()});
}

Dims without(const Dims& sizes, int left_out) {
  Dims rest;
  for (int i = 0; i < sizes.size(); ++i)
    if (i != left_out) rest.push_back(sizes[i]);
  return rest;
}

Tensor in_place(Session& s, const Operator& op, Tensor self) {
  dispatched(s, op, {&self}, {&self});
  return self;
}

/// _rms.
Tensor root_mean_square(Session& s, const Tensor& tensor) {
  return div(s, vector_norm(s, tensor), any_number);
}

/// _approx_sq_grad.
Tensor approximate_square(Session& s, const Tensor& rows, const Tensor& columns) {
  static constexpr Operator rsqrt_{"aten.rsqrt_.default", OperatorKind::pointwise};
  const Tensor of_rows =
      unsqueeze(s, in_place(s, rsqrt_, div(s, rows, mean(s, rows, {-1}, true))), -1);
  const Tensor of_columns = rsqrt(s, unsqueeze(s, columns, -2));
  return mul(s, of_rows, of_columns);
}

}  // namespace

void ParameterOptimizer::make_adafactor_state(Session& s, const Tensor& gradient, State& state) {
  const Dims& sizes = gradient.sizes();
  if (sizes.size() < 2) {
    state.first_moment = zeros_like(s, gradient);
    return;
  }
  state.first_moment = zeros_from_host(s, without(sizes, sizes.size() - 1), gradient);
  state.second_moment = zeros_from_host(s, without(sizes, sizes.size() - 2), gradient);
}

void ParameterOptimizer::adafactor_step(Session& s) {
  static constexpr Operator clamp_{"aten.clamp_.default", OperatorKind::pointwise};
  // Variables of Python's loop, which live until the next parameter replaces them.
  Tensor gradient, data, update;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    State& state = states_[i];
    if (!parameter.grad()) continue;
    gradient = parameter.grad();
    if (is_half(gradient)) gradient = to(s, gradient, Dtype::float32);
    if (!state.first_moment) make_adafactor_state(s, gradient, state);
    data = parameter;
    if (is_half(data)) data = to(s, data, Dtype::float32);
    state.scale = root_mean_square(s, data);
    update = add(s, pow(s, gradient, 2), any_number);
    mul_(s, state.first_moment, any_number);
    if (state.second_moment) {
      add_(s, state.first_moment, mean(s, update, {-1}));
      add_(s, mul_(s, state.second_moment, any_number), mean(s, update, {-2}));
      update = approximate_square(s, state.first_moment, state.second_moment);
    } else {
      add_(s, state.first_moment, update);
      update = rsqrt(s, state.first_moment);
    }
    mul_(s, update, gradient);
    div_(s, update, in_place(s, clamp_, div(s, root_mean_square(s, update), any_number)));
    mul_(s, update, any_number);
    if (settings_.weight_decay) add_(s, data, data);
    add_(s, data, neg(s, update));
    if (is_half(parameter)) copy_(s, parameter, data);
  }
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/models/rotary_buffers.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"

namespace shardscope::eager {
namespace {

/// number ** tensor.
Tensor power_of_number(Session& s, const Tensor& exponent) {
  static constexpr Operator op{"aten.pow.Scalar", OperatorKind::pointwise};
  Tensor result = allocate_like(s, exponent, exponent.dtype());
  dispatched(s, op, {&exponent}, {&result});
  return result;
}

}  // namespace

Tensor yarn_inverse_frequencies(Session& s, std::int64_t count) {
  constexpr double any_factor = 0.5;
  const NoGrad no_grad(s);
  const Device device = s.settings.device;
  const auto one_over = [&](const Tensor& x) { return mul(s, reciprocal(s, x), 1.0); };
  Tensor positions;
  {
    Tensor exponent = arange(s, count, {Dtype::int64, device}, ArangeForm::start_step);
    exponent = to(s, exponent, Dtype::float32);
    exponent = div(s, exponent, 2 * count);
    positions = power_of_number(s, exponent);
  }
  Tensor extrapolated = one_over(positions);
  Tensor interpolated = one_over(mul(s, positions, any_factor));
  Tensor ramp;
  {
    Tensor linear = arange(s, count, {Dtype::float32, device});
    linear = sub(s, linear, 1.0);
    linear = div(s, linear, any_factor);
    ramp = clamp(s, linear);
  }
  ramp = rsub(s, ramp, 1.0);
  Tensor inverse;
  {
    Tensor near = mul(s, interpolated, rsub(s, ramp, 1.0));
    Tensor far = mul(s, extrapolated, ramp);
    const LetGo summands{near, far};
    inverse = add(s, near, far);
  }
  const LetGo locals{positions, extrapolated, interpolated, ramp};
  return inverse;
}

Tensor default_inverse_frequencies(Session& s, std::int64_t count) {
  const NoGrad no_grad(s);
  Tensor exponent = arange(s, count, {Dtype::float32, s.settings.device}, ArangeForm::start_step);
  exponent = div(s, std::move(exponent), 2 * count);
  const Tensor power = power_of_number(s, exponent);
  exponent.reset();
  Tensor inverse = reciprocal(s, power);
  return mul(s, std::move(inverse), 1.0);
}

}  // namespace shardscope::eager

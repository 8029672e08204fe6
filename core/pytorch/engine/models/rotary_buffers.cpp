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

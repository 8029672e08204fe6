#include "core/runtime/deepspeed/norms.h"

#include <limits>

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/pointwise.h"
#include "core/lower/pytorch/aten/reductions.h"

namespace shardscope::eager::deepspeed {

namespace {

/// torch.isfinite: equal to itself, and its absolute value is not infinite.
Tensor is_finite(Session& s, const Tensor& value) {
  const Tensor is_number = compare(s, Comparison::eq, value, value);
  return mul(s, is_number,
             compare(s, Comparison::ne, abs(s, value), std::numeric_limits<double>::infinity()));
}

}  // namespace

Tensor has_inf_or_nan(Session& s, const Tensor& gradient) {
  const Tensor largest_is = is_finite(s, max(s, gradient));
  return logical_not(s, bitwise_and(s, largest_is, is_finite(s, min(s, gradient))));
}

void mask_invalid(Session& s, const Tensor& norm) {
  const Tensor infinite = isinf(s, norm);
  const Tensor no_number = compare(s, Comparison::ne, norm, norm);
  masked_fill(s, norm, bitwise_or(s, no_number, infinite), -1.0);
}

Tensor scale_tensor(Session& s) {
  const Tensor norm = scalar_tensor(s, {.dtype = Dtype::float32, .device = s.settings.device});
  return reciprocal(s, clamp(s, div(s, add(s, div(s, norm, 1.0), 1e-6), 1.0)));
}

}  // namespace shardscope::eager::deepspeed

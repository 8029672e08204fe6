#include "core/pytorch/runtimes/deepspeed/norms.h"

#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"

namespace shardscope::eager::deepspeed {

namespace {

/// torch.isfinite: equal to itself, and its absolute value is not infinite.
Tensor is_finite(Session& s, const Tensor& value) {
  const Tensor size = abs(s, value);
  const Tensor is_bounded = compare(s, Comparison::ne, size, 0);
  const Tensor is_number = compare(s, Comparison::eq, value, value);
  return mul(s, is_number, is_bounded);
}

}  // namespace

Tensor has_inf_or_nan(Session& s, const Tensor& gradient) {
  Tensor largest_is = is_finite(s, max(s, gradient));
  Tensor smallest = min(s, gradient);
  Tensor smallest_is = is_finite(s, smallest);
  smallest.reset();
  return logical_not(s, bitwise_and(s, std::move(largest_is), std::move(smallest_is)));
}

void mask_invalid(Session& s, const Tensor& norm) {
  static constexpr Operator fill{"aten.masked_fill_.Tensor", OperatorKind::pointwise};
  Tensor infinite = isinf(s, norm);
  Tensor no_number = compare(s, Comparison::ne, norm, norm);
  Tensor mask = bitwise_or(s, no_number, infinite);
  Tensor error = tensor(s, {}, {.dtype = Dtype::float32, .device = s.settings.device});
  const LetGo locals(infinite, no_number, mask, error);
  item(s, error);  // a value on the device is read back to fill with it
  dispatched(s, fill, {&norm, &mask, &error}, {&norm});
}

namespace {

/// (~torch.isfinite(norm) | (norm < 0)).any()
Tensor any_invalid(Session& s, const Tensor& norm) {
  Tensor infinite = bitwise_not(s, is_finite(s, norm));
  Tensor negative = compare(s, Comparison::lt, norm, 0);
  return any(s, bitwise_or(s, std::move(infinite), std::move(negative)));
}

}  // namespace

Tensor combined_norm(Session& s, const Tensors& norms) {
  Tensor stacked = stack(s, norms);
  Tensor invalid = any_invalid(s, stacked);
  Tensor combined = vector_norm(s, stacked);
  const LetGo locals(stacked, invalid, combined);
  return where(s, invalid, full_like(s, combined), combined);
}

void check_norm(Session& s, const Tensor& norm) { item(s, any_invalid(s, norm)); }

Tensor clip_factor(Session& s, const Tensor& norm) {
  Tensor clip = div(s, add(s, div(s, norm, 1.0), 1e-6), 1.0);
  clip = clamp(s, std::move(clip));
  const Tensor combined = mul(s, clip, 1.0);
  return mul(s, reciprocal(s, combined), 1.0);
}

}  // namespace shardscope::eager::deepspeed

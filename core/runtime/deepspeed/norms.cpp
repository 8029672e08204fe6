#include "core/runtime/deepspeed/norms.h"

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/pointwise.h"
#include "core/lower/pytorch/aten/reductions.h"

namespace shardscope::eager::deepspeed {

Tensor has_inf_or_nan(Session& s, const Tensor& gradient) {
  const Tensor largest = max(s, gradient);
  const Tensor smallest = min(s, gradient);
  return bitwise_or(s, logical_not(s, isinf(s, largest)), logical_not(s, isinf(s, smallest)));
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

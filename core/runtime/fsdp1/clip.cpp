#include "core/runtime/fsdp1/clip.h"

#include <cmath>

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/pointwise.h"
#include "core/lower/pytorch/aten/reductions.h"
#include "core/lower/pytorch/aten/views.h"
#include "core/runtime/clip_grad_norm.h"
#include "core/runtime/collectives.h"
#include "core/runtime/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

constexpr double any_number = 0.5;

/// The gradients of sharded and of other units.
struct Gradients {
  Tensors sharded;
  Tensors whole;
  bool any_whole_parameter = false;

  Tensors all() const {
    Tensors both = sharded;
    both.insert(both.end(), whole.begin(), whole.end());
    return both;
  }
};

Gradients gradients_of(const FullySharded& model) {
  Gradients gradients;
  for (const auto& unit : model.units()) {
    if (!unit->handle) continue;
    const bool is_sharded = unit->handle->is_sharded_strategy();
    gradients.any_whole_parameter = gradients.any_whole_parameter || !is_sharded;
    const Tensors parameters = unit->handle->uses_original_parameters()
                                   ? unit->handle->parameters()
                                   : Tensors{unit->handle->flat()};
    for (const Tensor& parameter : parameters)
      if (parameter.grad())
        (is_sharded ? gradients.sharded : gradients.whole).push_back(parameter.grad());
  }
  return gradients;
}

/// _get_grad_norm: all gradients as one vector, in float32.
Tensor norm_of(Session& s, const Tensors& gradients, double order, const Tensor& zero) {
  if (gradients.empty()) return zero;
  Tensors norms;
  for (const Tensor& gradient : gradients)
    norms.push_back(vector_norm(s, detach(s, gradient), order, Dtype::float32));
  return vector_norm(s, stack(s, norms), order, Dtype::float32);
}

Tensor total_norm(Session& s, FullySharded& model, const Gradients& gradients, double order) {
  const ProcessGroup& group = model.units().front()->group;
  const Tensor& zero = model.shared().zero;
  const Tensor sharded = norm_of(s, gradients.sharded, order, zero);
  Tensor whole;
  if (gradients.any_whole_parameter) whole = norm_of(s, gradients.whole, order, zero);
  if (std::isinf(order)) {
    const Tensor norm = whole ? maximum(s, sharded, whole) : sharded;
    all_reduce(s, group, norm, "MAX");
    return norm;
  }
  const Tensor norm = pow(s, sharded, order);
  all_reduce(s, group, norm, "SUM");
  if (whole) add_(s, norm, pow(s, whole, order));
  return pow(s, norm, 1 / order);
}

void scale(Session& s, const Tensors& gradients, const Tensor& norm) {
  const Tensor coefficient = mul(s, reciprocal(s, add(s, norm, any_number)), any_number);
  const Tensor clamped = clamp(s, coefficient);
  for (const Tensor& gradient : gradients)
    mul_(s, gradient, to(s, clamped, {.dtype = gradient.dtype(), .device = gradient.device()}));
}

}  // namespace

Tensor clip_grad_norm(Session& s, FullySharded& model, double order) {
  const NoGrad no_grad(s);
  lazy_init(s, model.shared());
  if (!model.shared().zero)
    model.shared().zero = scalar_tensor(s, {.dtype = Dtype::float32, .device = s.settings.device});
  const Gradients gradients = gradients_of(model);
  if (gradients.sharded.empty() && !model.has_sharded_units())
    return eager::clip_grad_norm(s, model.parameters());
  Tensor norm = total_norm(s, model, gradients, order);
  if (model.shared().options.offload_parameters) norm = to(s, norm, {.device = Device::cpu});
  scale(s, gradients.all(), norm);
  return norm;
}

}  // namespace shardscope::eager::fsdp1

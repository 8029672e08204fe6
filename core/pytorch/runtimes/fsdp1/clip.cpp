#include "core/pytorch/runtimes/fsdp1/clip.h"

#include <cmath>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

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
  Tensor stacked = stack(s, norms);
  norms.clear();
  const Tensor norm = vector_norm(s, std::move(stacked), order, Dtype::float32);
  return to(s, norm, {.device = s.settings.device});  // from the host, where it is offloaded
}

/// The variables of the library's function, which live until it returns.
struct Norms {
  Tensor sharded;
  Tensor whole;  ///< None: no unit leaves its parameters whole
  Tensor total;
};

Norms norms_of(Session& s, FullySharded& model, const Gradients& gradients, double order) {
  const ProcessGroup& group = model.units().front()->group;
  const Tensor& zero = model.shared().zero;
  Norms norms{.sharded = norm_of(s, gradients.sharded, order, zero), .whole = {}, .total = {}};
  if (gradients.any_whole_parameter) norms.whole = norm_of(s, gradients.whole, order, zero);
  if (std::isinf(order)) {
    norms.total = norms.whole ? maximum(s, norms.sharded, norms.whole) : norms.sharded;
    all_reduce(s, group, norms.total, "MAX");
    return norms;
  }
  norms.total = pow(s, norms.sharded, order);
  all_reduce(s, group, norms.total, "SUM");
  if (norms.whole) add_(s, norms.total, pow(s, norms.whole, order));
  norms.total = pow(s, norms.total, 1 / order);
  return norms;
}

void scale(Session& s, const Tensors& gradients, const Tensor& norm) {
  // max_norm / (norm + 1e-6) is the reciprocal times a number: the sum outlives the reciprocal.
  Tensor sum = add(s, norm, any_number);
  const Tensor coefficient = mul(s, reciprocal(s, sum), any_number);
  sum.reset();
  const Tensor clamped = clamp(s, coefficient);
  for (const Tensor& gradient : gradients)
    mul_(s, gradient, to(s, clamped, {.dtype = gradient.dtype(), .device = gradient.device()}));
  // functools.reduce(torch.promote_types) over the gradients' dtypes.
  static constexpr Operator promote_types{"aten.promote_types.default", OperatorKind::host};
  for (std::size_t i = 1; i < gradients.size(); ++i)
    dispatched(s, promote_types, TensorPointers(), TensorPointers());
}

}  // namespace

Tensor clip_grad_norm(Session& s, FullySharded& model, double order) {
  const NoGrad no_grad(s);
  lazy_init(s, model.shared());
  if (!model.shared().zero)
    model.shared().zero = tensor(s, {}, {Dtype::float32, s.settings.device});
  const Gradients gradients = gradients_of(model);
  if (!model.has_sharded_units()) return eager::clip_grad_norm(s, model.parameters());
  Norms norms = norms_of(s, model, gradients, order);
  if (model.shared().options.offload_parameters)
    norms.total = to(s, norms.total, {.device = Device::cpu});
  scale(s, gradients.all(), norms.total);
  return norms.total;
}

}  // namespace shardscope::eager::fsdp1

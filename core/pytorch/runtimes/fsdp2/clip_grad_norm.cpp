#include "core/pytorch/runtimes/fsdp2/clip_grad_norm.h"

#include <cmath>

#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::fsdp2 {
namespace {

/// _NormPartial to Replicate: the powers are summed.
Tensor summed_over_ranks(Session& s, const Tensor& norms, const ProcessGroup& group, double order) {
  if (group.size() == 1) return norms;
  const Tensor powers = pow(s, norms, Number(order));
  const Tensor sum = functional_all_reduce(s, group, powers, "sum");
  wait_tensor(s, sum);
  return pow(s, sum, Number(1 / order));
}

Tensor largest_over_ranks(Session& s, const Tensor& norm, const ProcessGroup& group) {
  if (group.size() == 1) return norm;
  const Tensor largest = functional_all_reduce(s, group, norm, "max");
  wait_tensor(s, largest);
  return largest;
}

TotalNorm total_norm(Session& s, const Tensors& gradients, const ProcessGroup& group,
                     double order) {
  const Tensors each = gradient_norms(s, gradients);
  const Tensor norms = stack(s, each);
  if (std::isinf(order)) return {.norm = vector_norm(s, norms, order), .partial = true};
  return {.norm = vector_norm(s, summed_over_ranks(s, norms, group, order), order)};
}

}  // namespace

TotalNorm clip_grad_norm(Session& s, const Tensors& parameters, const ProcessGroup& group,
                         double order) {
  const NoGrad no_grad(s);
  Tensors gradients;
  for (const Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty()) return {};
  TotalNorm total = total_norm(s, gradients, group, order);
  clip_with_norm(s, gradients, full_tensor(s, total, group));
  return total;
}

Tensor full_tensor(Session& s, const TotalNorm& total, const ProcessGroup& group) {
  return total.partial ? largest_over_ranks(s, total.norm, group) : total.norm;
}

}  // namespace shardscope::eager::fsdp2

#include "core/pytorch/runtimes/common/clip_grad_norm.h"

#include <algorithm>

#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"

namespace shardscope::eager {
namespace {

/// Lists of one dtype each; the dtype that appears last comes first, as in a std::unordered_map.
std::vector<Tensors> by_dtype(const Tensors& tensors) {
  std::vector<Tensors> lists;
  for (const Tensor& tensor : tensors) {
    auto list = std::find_if(lists.begin(), lists.end(),
                             [&](const Tensors& l) { return l[0].dtype() == tensor.dtype(); });
    if (list == lists.end()) list = lists.insert(lists.begin(), Tensors());
    list->push_back(tensor);
  }
  return lists;
}

}  // namespace

Tensors gradient_norms(Session& s, const Tensors& gradients) {
  const NoGrad no_grad(s);
  Tensors norms;
  for (const Tensors& list : by_dtype(gradients))
    for (Tensor& norm : foreach_norm(s, list)) norms.push_back(std::move(norm));
  return norms;
}

Tensor total_norm(Session& s, const Tensors& gradients) {
  const NoGrad no_grad(s);
  Tensors norms = gradient_norms(s, gradients);
  Tensor total = vector_norm(s, stack(s, norms));
  let_go_of(norms);
  return total;
}

void clip_with_norm(Session& s, const Tensors& gradients, const Tensor& norm) {
  constexpr double any_number = 0.5;
  const NoGrad no_grad(s);
  // max_norm / (norm + 1e-6) is the reciprocal times a number: the sum outlives the reciprocal.
  Tensor sum = add(s, norm, any_number);
  const Tensor coefficient = mul(s, reciprocal(s, sum), any_number);
  sum.reset();
  const Tensor clamped = clamp(s, coefficient);
  for (const Tensors& list : by_dtype(gradients))
    foreach_in_place(s, foreach_mul_tensor_, list, clamped);
}

Tensor clip_grad_norm(Session& s, const Tensors& parameters) {
  Tensors gradients;
  for (const Tensor& parameter : parameters)
    if (parameter.grad()) gradients.push_back(parameter.grad());
  Tensor norm = total_norm(s, gradients);
  clip_with_norm(s, gradients, norm);
  return norm;
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/reductions.h"

#include <algorithm>
#include <array>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/view_backward.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

using Reduced = std::array<bool, Dims::capacity>;

Reduced reduced_dims(const Dims& dims, int count) {
  Reduced reduced{};
  for (const std::int64_t dim : dims)
    reduced[static_cast<std::size_t>(wrap_dim(static_cast<int>(dim), count))] = true;
  if (dims.empty()) std::fill_n(reduced.begin(), count, true);
  return reduced;
}

/// The output of a reduction: TensorIterator lays it out in the order of the input's strides
/// (resize_reduction gives it contiguous strides).
Dims reduced_sizes(const Tensor& self, const Reduced& reduced, bool keepdim) {
  Dims sizes;
  for (int i = 0; i < self.dim(); ++i) {
    if (!reduced[static_cast<std::size_t>(i)])
      sizes.push_back(self.size(i));
    else if (keepdim)
      sizes.push_back(1);
  }
  return sizes;
}

std::int64_t reduced_elements(const Tensor& self, const Reduced& reduced) {
  std::int64_t count = 1;
  for (int i = 0; i < self.dim(); ++i)
    if (reduced[static_cast<std::size_t>(i)]) count *= self.size(i);
  return count;
}

/// sum_backward of torch/csrc/autograd/FunctionsManual.cpp.
Tensor spread(Session& s, Tensor gradient, const Dims& sizes, const Reduced& reduced,
              bool keepdim) {
  if (!keepdim)
    for (int i = 0; i < sizes.size(); ++i)
      if (reduced[static_cast<std::size_t>(i)]) gradient = unsqueeze(s, std::move(gradient), i);
  return expand(s, std::move(gradient), sizes);
}

/// Integers are summed in int64.
Dtype sum_dtype(Dtype dtype) { return is_floating(dtype) ? dtype : Dtype::int64; }

/// Autocast on cuda sums half-precision tensors in float32 (its list fp32_set_opt_dtype).
Dtype autocast_dtype(const Session& s, const Tensor& self) {
  const bool cast = s.autocast.enabled && s.settings.device == Device::cuda &&
                    self.device() == Device::cuda &&
                    (self.dtype() == Dtype::float16 || self.dtype() == Dtype::bfloat16);
  return cast ? Dtype::float32 : sum_dtype(self.dtype());
}

Tensor reduce(Session& s, const Operator& op, const Tensor& self, Dtype dtype, const Dims& sizes,
              const NodeRef& node) {
  Tensor result = allocate(s, like(self, dtype), sizes);
  dispatched(s, op, {&self}, {&result});
  set_history(s, result, node);
  return result;
}

}  // namespace

Tensor sum(Session& s, Tensor self) {
  static constexpr Operator op{"aten.sum.default", OperatorKind::reduction};
  const LetGo let_go{self};
  const NodeRef node =
      make_node(s, "SumBackward0", {&self},
                [back = self.sizes()](Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {expand(in, gradients[0], back)};
                });
  return reduce(s, op, self, autocast_dtype(s, self), {}, node);
}

Tensor sum(Session& s, Tensor self, const Dims& dims, bool keepdim) {
  static constexpr Operator op{"aten.sum.dim_IntList", OperatorKind::reduction};
  const LetGo let_go{self};
  const Reduced reduced = reduced_dims(dims, self.dim());
  const NodeRef node = make_node(
      s, "SumBackward1", {&self},
      [back = self.sizes(), reduced, keepdim](Session& in, Node&, Tensors& gradients) -> Tensors {
        return {spread(in, gradients[0], back, reduced, keepdim)};
      });
  return reduce(s, op, self, autocast_dtype(s, self), reduced_sizes(self, reduced, keepdim), node);
}

Tensor mean(Session& s, Tensor self) {
  static constexpr Operator op{"aten.mean.default", OperatorKind::reduction};
  const LetGo let_go{self};
  const NodeRef node =
      make_node(s, "MeanBackward0", {&self},
                [back = self.sizes()](Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {div_scalar(in, expand(in, gradients[0], back), back.product())};
                });
  return reduce(s, op, self, self.dtype(), {}, node);
}

Tensor mean(Session& s, Tensor self, const Dims& dims, bool keepdim) {
  static constexpr Operator op{"aten.mean.dim", OperatorKind::reduction};
  const LetGo let_go{self};
  const Reduced reduced = reduced_dims(dims, self.dim());
  const NodeRef node =
      make_node(s, "MeanBackward1", {&self},
                [back = self.sizes(), reduced, keepdim, count = reduced_elements(self, reduced)](
                    Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {div_scalar(in, spread(in, gradients[0], back, reduced, keepdim), count)};
                });
  return reduce(s, op, self, self.dtype(), reduced_sizes(self, reduced, keepdim), node);
}

Tensor all(Session& s, Tensor self) {
  static constexpr Operator op{"aten.all.default", OperatorKind::reduction};
  const LetGo let_go{self};
  return reduce(s, op, self, Dtype::boolean, {}, {});
}

Tensor any(Session& s, Tensor self) {
  static constexpr Operator op{"aten.any.default", OperatorKind::reduction};
  const LetGo let_go{self};
  return reduce(s, op, self, Dtype::boolean, {}, {});
}

Tensor cumsum(Session& s, Tensor self, int, std::optional<Dtype> dtype) {
  static constexpr Operator op{"aten.cumsum.default", OperatorKind::reduction};
  const LetGo let_go{self};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)})) refuse_gradient(op.name);
  Tensor result = allocate(s, like(self, dtype ? *dtype : autocast_dtype(s, self)), self.sizes());
  dispatched(s, op, {&self}, {&result});
  return result;
}

Tensor max(Session& s, Tensor self) {
  static constexpr Operator op{"aten.max.default", OperatorKind::reduction};
  const LetGo let_go{self};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)})) refuse_gradient(op.name);
  return reduce(s, op, self, self.dtype(), {}, {});
}

Tensor min(Session& s, Tensor self) {
  static constexpr Operator op{"aten.min.default", OperatorKind::reduction};
  const LetGo let_go{self};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)})) refuse_gradient(op.name);
  return reduce(s, op, self, self.dtype(), {}, {});
}

Tensor vector_norm(Session& s, Tensor self, double, std::optional<Dtype> dtype) {
  static constexpr Operator op{"aten.linalg_vector_norm.default", OperatorKind::reduction};
  const LetGo let_go{self};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)})) refuse_gradient(op.name);
  return reduce(s, op, self, dtype.value_or(autocast_dtype(s, self)), {}, {});
}

Tensor vector_norm(Session& s, Tensor self, const Dims& dims) {
  static constexpr Operator op{"aten.linalg_vector_norm.default", OperatorKind::reduction};
  const LetGo let_go{self};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)})) refuse_gradient(op.name);
  const Dims sizes = reduced_sizes(self, reduced_dims(dims, self.dim()), false);
  return reduce(s, op, self, autocast_dtype(s, self), sizes, {});
}

Tensor sum_to(Session& s, Tensor self, const Dims& sizes) {
  const LetGo let_go{self};
  if (sizes.empty()) return sum(s, std::move(self));
  const int leading = self.dim() - sizes.size();
  Dims dims;
  for (int i = 0; i < leading; ++i) dims.push_back(i);
  for (int i = leading; i < self.dim(); ++i)
    if (sizes[i - leading] == 1 && self.size(i) != 1) dims.push_back(i);
  if (!dims.empty()) self = sum(s, std::move(self), dims, true);
  return leading > 0 ? view(s, std::move(self), sizes) : self;
}

}  // namespace shardscope::eager

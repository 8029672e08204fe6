#include "core/pytorch/engine/views.h"

#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/view_backward.h"
#include "core/pytorch/engine/view_rules.h"

namespace shardscope::eager {
namespace {

/// Every view of one tensor: the node first, then the operator, then the history.
struct ViewOf {
  Dims sizes;
  Dims strides;
  std::int64_t offset;
};

Tensor finish(Session& s, const Operator& op, const Tensor& self, const ViewOf& to,
              const NodeRef& node) {
  Tensor result = alias_of(self, to.sizes, to.strides, to.offset);
  result->is_view = true;
  dispatched(s, op, {&self}, {&result});
  set_history(s, result, node);
  return result;
}

std::int64_t offset_of(const Tensor& tensor) { return tensor->layout.offset; }

/// The backward of view and _unsafe_view: a reshape back.
auto reshape_back(const Dims& sizes) {
  return [sizes](Session& s, Node&, Tensors& gradients) -> Tensors {
    if (!gradients[0].defined()) return {Tensor()};
    return {reshape(s, gradients[0], sizes)};
  };
}

Tensor view_with(Session& s, const Tensor& self, const Dims& sizes, const Dims& strides) {
  static constexpr Operator op{"aten.view.default", OperatorKind::view};
  const NodeRef node = make_node(s, "ViewBackward0", {&self}, reshape_back(self.sizes()));
  return finish(s, op, self, {sizes, strides, offset_of(self)}, node);
}

}  // namespace

namespace {

std::optional<Dims> strides_of_view(const Session& s, const Tensor& self, const Dims& sizes) {
  auto strides = view_strides(self.sizes(), self.strides(), sizes);
  if (strides && s.settings.fake_tensors)
    strides = fake_view_strides(self.sizes(), self.strides(), sizes);
  return strides;
}

}  // namespace

Tensor view(Session& s, Tensor self, Dims sizes) {
  const LetGo let_go{self};
  sizes = infer_sizes(sizes, self.numel());
  const auto strides = strides_of_view(s, self, sizes);
  if (!strides) refuse_view(self, sizes);
  return view_with(s, self, sizes, *strides);
}

Tensor reshape(Session& s, Tensor self, Dims sizes) {
  const LetGo let_go{self};
  sizes = infer_sizes(sizes, self.numel());
  if (const auto strides = strides_of_view(s, self, sizes))
    return view_with(s, self, sizes, *strides);
  return unsafe_view(s, clone_contiguous(s, self), sizes);
}

Tensor unsafe_view(Session& s, Tensor self, Dims sizes) {
  static constexpr Operator op{"aten._unsafe_view.default", OperatorKind::view};
  const LetGo let_go{self};
  sizes = infer_sizes(sizes, self.numel());
  const NodeRef node = make_node(s, "UnsafeViewBackward0", {&self}, reshape_back(self.sizes()));
  const auto strides = strides_of_view(s, self, sizes);
  if (!strides) refuse_view(self, sizes);
  Tensor result = alias_of(self, sizes, *strides, offset_of(self));
  dispatched(s, op, {&self}, {&result});
  set_history(s, result, node);
  return result;
}

Tensor flatten(Session& s, Tensor self, int first, int last) {
  const LetGo let_go{self};
  first = wrap_dim(first, self.dim());
  last = wrap_dim(last, self.dim());
  if (self.dim() == 0) return reshape(s, self, {1});
  if (first == last) return self;
  Dims sizes;
  for (int i = 0; i < first; ++i) sizes.push_back(self.size(i));
  std::int64_t together = 1;
  for (int i = first; i <= last; ++i) together *= self.size(i);
  sizes.push_back(together);
  for (int i = last + 1; i < self.dim(); ++i) sizes.push_back(self.size(i));
  return reshape(s, self, sizes);
}

Tensor view_as(Session& s, Tensor self, const Tensor& other) {
  const Dims sizes = other.sizes();
  return view(s, std::move(self), sizes);
}

Tensor t(Session& s, Tensor self) {
  static constexpr Operator op{"aten.t.default", OperatorKind::view};
  const LetGo let_go{self};
  const NodeRef node = make_node(
      s, "TBackward0", {&self},
      [](Session& in, Node&, Tensors& gradients) -> Tensors { return {t(in, gradients[0])}; });
  ViewOf to{self.sizes(), self.strides(), offset_of(self)};
  if (self.dim() == 2) {
    std::swap(to.sizes[0], to.sizes[1]);
    std::swap(to.strides[0], to.strides[1]);
  }
  return finish(s, op, self, to, node);
}

Tensor transpose(Session& s, Tensor self, int a, int b) {
  static constexpr Operator op{"aten.transpose.int", OperatorKind::view};
  const LetGo let_go{self};
  a = wrap_dim(a, self.dim());
  b = wrap_dim(b, self.dim());
  const NodeRef node = make_node(s, "TransposeBackward0", {&self},
                                 [a, b](Session& in, Node&, Tensors& gradients) -> Tensors {
                                   return {transpose(in, gradients[0], a, b)};
                                 });
  ViewOf to{self.sizes(), self.strides(), offset_of(self)};
  std::swap(to.sizes[a], to.sizes[b]);
  std::swap(to.strides[a], to.strides[b]);
  return finish(s, op, self, to, node);
}

Tensor permute(Session& s, Tensor self, Dims order) {
  static constexpr Operator op{"aten.permute.default", OperatorKind::view};
  const LetGo let_go{self};
  ViewOf to{order, order, offset_of(self)};
  Dims inverse = order;
  for (int i = 0; i < order.size(); ++i) {
    const int from = wrap_dim(static_cast<int>(order[i]), self.dim());
    to.sizes[i] = self.size(from);
    to.strides[i] = self.strides()[from];
    inverse[from] = i;
  }
  const NodeRef node = make_node(s, "PermuteBackward0", {&self},
                                 [inverse](Session& in, Node&, Tensors& gradients) -> Tensors {
                                   return {permute(in, gradients[0], inverse)};
                                 });
  return finish(s, op, self, to, node);
}

Tensor expand(Session& s, Tensor self, Dims sizes) {
  static constexpr Operator op{"aten.expand.default", OperatorKind::view};
  const LetGo let_go{self};
  const NodeRef node =
      make_node(s, "ExpandBackward0", {&self},
                [back = self.sizes()](Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {sum_to(in, gradients[0], back)};
                });
  // at::inferExpandGeometry: a new or broadcast dimension has stride 0.
  ViewOf to{sizes, sizes, offset_of(self)};
  for (int i = 1; i <= sizes.size(); ++i) {
    const bool is_new = i > self.dim();
    if (sizes[-i] == -1) to.sizes[-i] = self.size(-i);
    const std::int64_t from = is_new ? 1 : self.size(-i);
    const std::int64_t stride =
        !is_new ? self.strides()[-i] : (i == 1 ? 1 : to.sizes[-(i - 1)] * to.strides[-(i - 1)]);
    to.strides[-i] = from == 1 && to.sizes[-i] != 1 ? 0 : stride;
  }
  return finish(s, op, self, to, node);
}

Tensor unsqueeze(Session& s, Tensor self, int dim) {
  static constexpr Operator op{"aten.unsqueeze.default", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim() + 1);
  const NodeRef node = make_node(s, "UnsqueezeBackward0", {&self},
                                 [dim](Session& in, Node&, Tensors& gradients) -> Tensors {
                                   return {squeeze(in, gradients[0], dim)};
                                 });
  ViewOf to{self.sizes(), self.strides(), offset_of(self)};
  to.strides.insert(dim, dim < self.dim() ? self.size(dim) * self.strides()[dim] : 1);
  to.sizes.insert(dim, 1);
  return finish(s, op, self, to, node);
}

Tensor squeeze(Session& s, Tensor self, int dim) {
  static constexpr Operator op{"aten.squeeze.dim", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim());
  const bool goes = self.dim() > 0 && self.size(dim) == 1;
  const NodeRef node = make_node(s, "SqueezeBackward1", {&self},
                                 [dim, goes](Session& in, Node&, Tensors& gradients) -> Tensors {
                                   if (!goes) return {gradients[0]};
                                   return {unsqueeze(in, gradients[0], dim)};
                                 });
  ViewOf to{self.sizes(), self.strides(), offset_of(self)};
  if (goes) {
    to.sizes.erase(dim);
    to.strides.erase(dim);
  }
  return finish(s, op, self, to, node);
}

Tensor squeeze(Session& s, Tensor self) {
  static constexpr Operator op{"aten.squeeze.default", OperatorKind::view};
  const LetGo let_go{self};
  const auto unsqueeze_to = [sizes = self.sizes()](Session& in, Node&,
                                                   Tensors& gradients) -> Tensors {
    Tensor gradient = gradients[0];
    for (int i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 1) gradient = unsqueeze(in, std::move(gradient), i);
    return {std::move(gradient)};
  };
  const NodeRef node = make_node(s, "SqueezeBackward0", {&self}, unsqueeze_to);
  ViewOf to{{}, {}, offset_of(self)};
  for (int i = 0; i < self.dim(); ++i) {
    if (self.size(i) == 1) continue;
    to.sizes.push_back(self.size(i));
    to.strides.push_back(self.strides()[i]);
  }
  return finish(s, op, self, to, node);
}

Tensor select(Session& s, Tensor self, int dim, std::int64_t index) {
  static constexpr Operator op{"aten.select.int", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim());
  const NodeRef node =
      make_node(s, "SelectBackward0", {&self},
                [back = self.sizes()](Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {select_backward(in, gradients[0], back)};
                });
  if (index < 0) index += self.size(dim);
  ViewOf to{self.sizes(), self.strides(), offset_of(self) + index * self.strides()[dim]};
  to.sizes.erase(dim);
  to.strides.erase(dim);
  return finish(s, op, self, to, node);
}

Tensor slice(Session& s, Tensor self, int dim, std::int64_t start, std::int64_t end,
             std::int64_t step) {
  static constexpr Operator op{"aten.slice.Tensor", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim());
  const NodeRef node =
      make_node(s, "SliceBackward0", {&self},
                [back = self.sizes()](Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {slice_backward(in, gradients[0], back)};
                });
  const SliceRange range = slice_range(self.size(dim), start, end, step);
  ViewOf to{self.sizes(), self.strides(), offset_of(self) + range.start * self.strides()[dim]};
  to.sizes[dim] = range.length;
  to.strides[dim] *= step;
  return finish(s, op, self, to, node);
}

Tensor indexed_slice(Session& s, Tensor self, int dim, std::int64_t start, std::int64_t end) {
  if (start == 0 && end >= self.size(dim)) return alias(s, std::move(self));
  return slice(s, std::move(self), dim, start, end);
}

Tensor narrow(Session& s, Tensor self, int dim, std::int64_t start, std::int64_t length) {
  return slice(s, std::move(self), dim, start, start + length, 1);
}

Tensor as_strided(Session& s, Tensor self, const Dims& sizes, const Dims& strides,
                  std::int64_t offset) {
  static constexpr Operator op{"aten.as_strided.default", OperatorKind::view};
  const LetGo let_go{self};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)}))
    refuse_gradient("as_strided");
  return finish(s, op, self, {sizes, strides, offset}, {});
}

Tensor alias(Session& s, Tensor self) {
  static constexpr Operator op{"aten.alias.default", OperatorKind::view};
  const LetGo let_go{self};
  const NodeRef node =
      make_node(s, "AliasBackward0", {&self},
                [](Session&, Node&, Tensors& gradients) -> Tensors { return {gradients[0]}; });
  return finish(s, op, self, {self.sizes(), self.strides(), offset_of(self)}, node);
}

namespace {

constexpr Operator detach_operator{"aten.detach.default", OperatorKind::view};

}  // namespace

Tensor detach(Session& s, Tensor self) {
  const LetGo let_go{self};
  Tensor result =
      finish(s, detach_operator, self, {self.sizes(), self.strides(), offset_of(self)}, {});
  result->is_view = false;
  return result;
}

Tensor shallow_detach(Session& s, const Tensor& self) {
  Tensor result = alias_of(self, self.sizes(), self.strides(), offset_of(self));
  if (s.settings.watched) dispatched(s, detach_operator, {&self}, {&result});
  return result;
}

Tensor view_dtype(Session& s, Tensor self, Dtype dtype) {
  static constexpr Operator op{"aten.view.dtype", OperatorKind::view};
  const LetGo let_go{self};
  Tensor result = alias_of(self, self.sizes(), self.strides(), offset_of(self));
  result->layout.dtype = dtype;
  result->is_view = true;
  dispatched(s, op, {&self}, {&result});
  return result;
}

}  // namespace shardscope::eager

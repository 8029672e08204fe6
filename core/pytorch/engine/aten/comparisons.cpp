// Comparisons, logic and choices by a mask.
#include <array>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/view_backward.h"

namespace shardscope::eager {
namespace {

constexpr Operator pointwise(std::string_view name) { return {name, OperatorKind::pointwise}; }

// In the order of Comparison.
constexpr std::array with_tensor{pointwise("aten.eq.Tensor"), pointwise("aten.ne.Tensor"),
                                 pointwise("aten.lt.Tensor"), pointwise("aten.le.Tensor"),
                                 pointwise("aten.gt.Tensor"), pointwise("aten.ge.Tensor")};
constexpr std::array with_number{pointwise("aten.eq.Scalar"), pointwise("aten.ne.Scalar"),
                                 pointwise("aten.lt.Scalar"), pointwise("aten.le.Scalar"),
                                 pointwise("aten.gt.Scalar"), pointwise("aten.ge.Scalar")};

Tensor without_gradient(Session& s, const Operator& op, TensorPointers operands, Dtype dtype,
                        bool number = false) {
  Tensor result = allocate_output(s, operands, dtype, number);
  dispatched(s, op, operands, {&result});
  return result;
}

Tensor where_operator(Session& s, const Tensor& condition, const Tensor& self, const Tensor& other,
                      const NodeRef& node) {
  static constexpr Operator op{"aten.where.self", OperatorKind::pointwise};
  Tensor result = allocate_output(s, {&condition, &self, &other}, result_type(self, other));
  dispatched(s, op, {&condition, &self, &other}, {&result});
  set_history(s, result, node);
  return result;
}

/// where(condition, grad, 0) and where(condition, 0, grad).
Tensors where_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor condition = node.saved(s, "condition");
  Tensors results(2);
  if (node.needs(1)) {
    const Tensor zero = scalar_tensor(s, like(gradients[0]));
    results[1] = where(s, condition, zero, gradients[0]);
  }
  if (node.needs(0)) {
    const Tensor zero = scalar_tensor(s, like(gradients[0]));
    results[0] = where(s, condition, gradients[0], zero);
  }
  return results;
}

}  // namespace

Tensor compare(Session& s, Comparison comparison, Tensor self, Tensor other) {
  const LetGo let_go{self, other};
  return without_gradient(s, with_tensor[static_cast<std::size_t>(comparison)], {&self, &other},
                          Dtype::boolean);
}

Tensor compare(Session& s, Comparison comparison, Tensor self, Number) {
  const LetGo let_go{self};
  return without_gradient(s, with_number[static_cast<std::size_t>(comparison)], {&self},
                          Dtype::boolean, true);
}

Tensor bitwise_and(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.bitwise_and.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  return without_gradient(s, op, {&self, &other}, result_type(self, other));
}

Tensor bitwise_or(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.bitwise_or.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  return without_gradient(s, op, {&self, &other}, result_type(self, other));
}

Tensor bitwise_not(Session& s, Tensor self) {
  static constexpr Operator op{"aten.bitwise_not.default", OperatorKind::pointwise};
  const LetGo let_go{self};
  return without_gradient(s, op, {&self}, self.dtype());
}

Tensor logical_not(Session& s, Tensor self) {
  static constexpr Operator op{"aten.logical_not.default", OperatorKind::pointwise};
  const LetGo let_go{self};
  return without_gradient(s, op, {&self}, Dtype::boolean);
}

Tensor isinf(Session& s, Tensor self) {
  static constexpr Operator op{"aten.isinf.default", OperatorKind::pointwise};
  const LetGo let_go{self};
  return without_gradient(s, op, {&self}, Dtype::boolean);
}

Tensor where(Session& s, Tensor condition, Tensor self, Tensor other) {
  const LetGo let_go{condition, self, other};
  const NodeRef node = make_node(s, "WhereBackward0", {&self, &other}, where_backward);
  if (node) node->save(s, "condition", condition);
  return where_operator(s, condition, self, other, node);
}

namespace {

NodeRef masked_fill_node(Session& s, const Tensor& self, const Tensor& mask) {
  NodeRef node = make_node(s, "MaskedFillBackward0", {&self},
                           [](Session& in, Node& me, Tensors& gradients) -> Tensors {
                             const Tensor saved = me.saved(in, "mask");
                             return {masked_fill(in, gradients[0], saved, 0)};
                           });
  if (node) node->save(s, "mask", mask);
  return node;
}

}  // namespace

Tensor masked_fill(Session& s, Tensor self, Tensor mask, Number value) {
  static constexpr Operator op{"aten.masked_fill.Scalar", OperatorKind::pointwise};
  const LetGo let_go{self, mask};
  const NodeRef node = masked_fill_node(s, self, mask);
  (void)value;
  Tensor result = allocate_output(s, {&self, &mask}, self.dtype());
  dispatched(s, op, {&self, &mask}, {&result});
  set_history(s, result, node);
  return result;
}

Tensor masked_fill_(Session& s, Tensor self, Tensor mask, Number) {
  static constexpr Operator op{"aten.masked_fill_.Scalar", OperatorKind::pointwise};
  const LetGo let_go{mask};
  if (self->is_view && any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)}))
    refuse_gradient(op.name);
  const NodeRef node = masked_fill_node(s, self, mask);
  ++self->version;
  dispatched(s, op, {&self, &mask}, {&self});
  set_history(s, self, node);
  return self;
}

}  // namespace shardscope::eager

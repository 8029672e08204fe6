// Sums, differences, products, quotients and powers, with their gradients.
#include <array>

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/view_backward.h"

namespace shardscope::eager {
namespace {

/// A Python number as the tensor that autograd keeps of it: 8 bytes on the CPU.
Tensor wrapped(Session& s, Number number) {
  const Dtype dtype = number.kind == Number::Kind::boolean   ? Dtype::boolean
                      : number.kind == Number::Kind::integer ? Dtype::int64
                                                             : Dtype::float64;
  Tensor tensor = allocate(s, {dtype, Device::cpu}, {});
  tensor->wrapped_number = true;
  return tensor;
}

Tensor pointwise(Session& s, const Operator& op, TensorPointers operands, Dtype dtype,
                 const NodeRef& node, bool with_number = false) {
  Tensor result = allocate_output(s, operands, dtype, with_number);
  dispatched(s, op, operands, {&result});
  set_history(s, result, node);
  return result;
}

Tensor in_place(Session& s, const Operator& op, const Tensor& self, TensorPointers operands,
                const NodeRef& node) {
  const bool leaf = self.is_leaf() && self.requires_grad();
  if (node && (leaf || self->is_view)) refuse_gradient(op.name);
  ++self->version;
  dispatched(s, op, operands, {&self});
  set_history(s, self, node);
  return self;
}

constexpr Operator mul_tensor{"aten.mul.Tensor", OperatorKind::pointwise};
constexpr Operator div_tensor{"aten.div.Tensor", OperatorKind::pointwise};

Tensors add_backward(Session&, Node& node, Tensors& gradients) {
  Tensors results(2);
  for (std::size_t i = 0; i < 2; ++i)
    if (node.needs(i)) results[i] = gradients[0];
  return results;
}

Tensors sub_backward(Session& s, Node& node, Tensors& gradients) {
  Tensors results(2);
  if (node.needs(1)) results[1] = neg(s, gradients[0]);
  if (node.needs(0)) results[0] = gradients[0];
  return results;
}

Tensors mul_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor other = node.saved(s, "other");
  const Tensor self = node.saved(s, "self");
  Tensors results(2);
  if (node.needs(1)) results[1] = mul(s, gradients[0], self);
  if (node.needs(0)) results[0] = mul(s, gradients[0], other);
  return results;
}

/// div_tensor_other_backward: -grad * ((self / other) / other).
Tensor div_backward_of_other(Session& s, const Tensor& gradient, const Tensor& self,
                             const Tensor& other) {
  const Tensor quotient = div(s, self, other);
  const Tensor twice = div(s, quotient, other);
  const Tensor negative = neg(s, gradient);
  return mul(s, negative, twice);
}

Tensors div_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor other = node.saved(s, "other");
  const Tensor self = node.saved(s, "self");
  Tensors results(2);
  if (node.needs(1)) results[1] = div_backward_of_other(s, gradients[0], self, other);
  if (node.needs(0)) results[0] = div(s, gradients[0], other);
  return results;
}

NodeRef mul_node(Session& s, const Tensor& self, const Tensor& other) {
  const NodeRef node = make_node(s, "MulBackward0", {&self, &other}, mul_backward);
  if (!node) return node;
  if (node->needs(0)) node->save(s, "other", other);
  if (node->needs(1)) node->save(s, "self", self);
  return node;
}

Tensors addcmul_backward(Session& s, Node& node, Tensors& gradients) {
  constexpr int value = 1;
  const Tensor second = node.saved(s, "tensor2");
  const Tensor first = node.saved(s, "tensor1");
  Tensors results(3);
  if (node.needs(0)) results[0] = gradients[0];
  if (node.needs(1)) results[1] = mul(s, gradients[0], mul_scalar(s, second, Number(value)));
  if (node.needs(2)) results[2] = mul(s, gradients[0], mul_scalar(s, first, Number(value)));
  return results;
}

NodeRef div_node(Session& s, const Tensor& self, const Tensor& other) {
  const NodeRef node = make_node(s, "DivBackward0", {&self, &other}, div_backward);
  if (!node) return node;
  node->save(s, "other", other);
  if (node->needs(1)) node->save(s, "self", self);
  return node;
}

/// What an operator that writes to `self` keeps of it: a copy made before.
Tensor before_write(Session& s, const NodeRef& node, const Tensor& self) {
  return node && node->needs(1) ? clone(s, self) : Tensor();
}

/// The number, if a gradient will need it as a tensor.
Tensor wrapped_if_needed(Session& s, const Tensor& self, Number number) {
  const bool needed = any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)});
  return needed ? wrapped(s, number) : Tensor();
}

auto pass_gradient() {
  return [](Session&, Node&, Tensors& gradients) -> Tensors { return {gradients[0]}; };
}

}  // namespace

Tensor add(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.add.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "AddBackward0", {&self, &other}, add_backward);
  return pointwise(s, op, {&self, &other}, result_type(self, other), node);
}

Tensor add(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.add.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self};
  const NodeRef node = make_node(s, "AddBackward0", {&self}, pass_gradient());
  return pointwise(s, op, {&self}, result_type(self, other), node, true);
}

Tensor sub(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.sub.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "SubBackward0", {&self, &other}, sub_backward);
  return pointwise(s, op, {&self, &other}, result_type(self, other), node);
}

Tensor sub(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.sub.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self};
  const NodeRef node = make_node(s, "SubBackward0", {&self}, pass_gradient());
  return pointwise(s, op, {&self}, result_type(self, other), node, true);
}

Tensor rsub(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.rsub.Scalar", OperatorKind::pointwise};
  const LetGo let_go{self};
  const NodeRef node = make_node(
      s, "RsubBackward1", {&self},
      [](Session& in, Node&, Tensors& gradients) -> Tensors { return {neg(in, gradients[0])}; });
  return pointwise(s, op, {&self}, result_type(self, other), node, true);
}

Tensor addcmul(Session& s, Tensor self, Tensor first, Tensor second) {
  static constexpr Operator op{"aten.addcmul.default", OperatorKind::pointwise};
  const LetGo let_go{self, first, second};
  const NodeRef node = make_node(s, "AddcmulBackward0", {&self, &first, &second}, addcmul_backward);
  if (node && node->needs(1)) node->save(s, "tensor2", second);
  if (node && node->needs(2)) node->save(s, "tensor1", first);
  return pointwise(s, op, {&self, &first, &second}, self.dtype(), node);
}

Tensor mul(Session& s, Tensor self, Tensor other) {
  const LetGo let_go{self, other};
  const NodeRef node = mul_node(s, self, other);
  return pointwise(s, mul_tensor, {&self, &other}, result_type(self, other), node);
}

Tensor mul(Session& s, Tensor self, Number other) {
  const LetGo let_go{self};
  const NodeRef node = mul_node(s, self, wrapped_if_needed(s, self, other));
  return pointwise(s, mul_tensor, {&self}, result_type(self, other), node, true);
}

Tensor mul_scalar(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.mul.Scalar", OperatorKind::pointwise};
  const LetGo let_go{self};
  const NodeRef node = make_node(s, "MulBackward1", {&self},
                                 [other](Session& in, Node&, Tensors& gradients) -> Tensors {
                                   return {mul_scalar(in, gradients[0], other)};
                                 });
  return pointwise(s, op, {&self}, result_type(self, other), node, true);
}

Tensor div(Session& s, Tensor self, Tensor other) {
  const LetGo let_go{self, other};
  const NodeRef node = div_node(s, self, other);
  return pointwise(s, div_tensor, {&self, &other}, to_floating(result_type(self, other)), node);
}

Tensor div(Session& s, Tensor self, Number other) {
  const LetGo let_go{self};
  const NodeRef node = div_node(s, self, wrapped_if_needed(s, self, other));
  return pointwise(s, div_tensor, {&self}, to_floating(result_type(self, other)), node, true);
}

Tensor div_scalar(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.div.Scalar", OperatorKind::pointwise};
  const LetGo let_go{self};
  const NodeRef node = make_node(s, "DivBackward1", {&self},
                                 [other](Session& in, Node&, Tensors& gradients) -> Tensors {
                                   return {div_scalar(in, gradients[0], other)};
                                 });
  return pointwise(s, op, {&self}, to_floating(result_type(self, other)), node, true);
}

Tensor floor_divide(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.floor_divide.default", OperatorKind::pointwise};
  const LetGo let_go{self};
  return pointwise(s, op, {&self}, result_type(self, other), {}, true);
}

namespace {

/// pow_backward: grad * (exponent * self.pow(exponent - 1)).
Tensor pow_backward(Session& s, const Tensor& gradient, const Tensor& self, Number exponent) {
  if (exponent.value == 0) return zeros_like(s, self);
  const Tensor power = pow(s, self, Number(exponent.value - 1));
  const Tensor scaled = mul_scalar(s, power, Number(exponent.value));
  return mul(s, gradient, scaled);
}

}  // namespace

Tensor pow(Session& s, Tensor self, Number exponent) {
  static constexpr Operator op{"aten.pow.Tensor_Scalar", OperatorKind::pointwise};
  const LetGo let_go{self};
  self = to_float32_on_cuda(s, self);
  const NodeRef node = make_node(s, "PowBackward0", {&self},
                                 [exponent](Session& in, Node& me, Tensors& gradients) -> Tensors {
                                   const Tensor base = me.saved(in, "self");
                                   return {pow_backward(in, gradients[0], base, exponent)};
                                 });
  if (node) node->save(s, "self", self);
  return pointwise(s, op, {&self}, result_type(self, exponent), node, true);
}

Tensor pow(Session& s, Tensor self, Tensor exponent) {
  static constexpr Operator op{"aten.pow.Tensor_Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, exponent};
  if (any_requires_grad(s, std::array<const Tensor*, 2>{&self, &exponent}))
    refuse_gradient(op.name);
  return pointwise(s, op, {&self, &exponent}, result_type(self, exponent), {});
}

Tensor maximum(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.maximum.default", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  if (any_requires_grad(s, std::array<const Tensor*, 2>{&self, &other})) refuse_gradient(op.name);
  return pointwise(s, op, {&self, &other}, result_type(self, other), {});
}

namespace {

/// where(self == other, grad / 2, grad), where the other one is not smaller.
Tensor minimum_backward_of(Session& s, const Tensor& gradient, const Tensor& self,
                           const Tensor& other, Comparison loses) {
  const Tensor shared = where(s, compare(s, Comparison::eq, self, other),
                              div_scalar(s, gradient, Number(2)), gradient);
  return masked_fill_(s, shared, compare(s, loses, self, other), Number(0));
}

Tensors minimum_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor other = node.saved(s, "other");
  const Tensor self = node.saved(s, "self");
  Tensors results(2);
  if (node.needs(1)) results[1] = minimum_backward_of(s, gradients[0], self, other, Comparison::lt);
  if (node.needs(0)) results[0] = minimum_backward_of(s, gradients[0], self, other, Comparison::gt);
  return results;
}

}  // namespace

Tensor minimum(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.minimum.default", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "MinimumBackward0", {&self, &other}, minimum_backward);
  if (node) {
    node->save(s, "other", other);
    node->save(s, "self", self);
  }
  return pointwise(s, op, {&self, &other}, result_type(self, other), node);
}

Tensor add_(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.add_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "AddBackward0", {&self, &other}, add_backward);
  return in_place(s, op, self, {&self, &other}, node);
}

Tensor add_(Session& s, Tensor self, Number) {
  static constexpr Operator op{"aten.add_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self};
  const NodeRef node = make_node(s, "AddBackward0", {&self}, pass_gradient());
  return in_place(s, op, self, {&self}, node);
}

Tensor sub_(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.sub_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "SubBackward0", {&self, &other}, sub_backward);
  return in_place(s, op, self, {&self, &other}, node);
}

Tensor mul_(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.mul_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "MulBackward0", {&self, &other}, mul_backward);
  if (node) {
    if (node->needs(0)) node->save(s, "other", other);
    node->save(s, "self", before_write(s, node, self));
  }
  return in_place(s, op, self, {&self, &other}, node);
}

Tensor mul_(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.mul_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self};
  return in_place(s, op, self, {&self}, mul_node(s, self, wrapped_if_needed(s, self, other)));
}

Tensor div_(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.div_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "DivBackward0", {&self, &other}, div_backward);
  if (node) {
    node->save(s, "other", other);
    node->save(s, "self", before_write(s, node, self));
  }
  return in_place(s, op, self, {&self, &other}, node);
}

Tensor div_(Session& s, Tensor self, Number other) {
  static constexpr Operator op{"aten.div_.Tensor", OperatorKind::pointwise};
  const LetGo let_go{self};
  return in_place(s, op, self, {&self}, div_node(s, self, wrapped_if_needed(s, self, other)));
}

}  // namespace shardscope::eager

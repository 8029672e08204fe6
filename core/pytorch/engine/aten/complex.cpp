#include "core/pytorch/engine/aten/complex.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"

namespace shardscope::eager {
namespace {

/// mul_tensor_backward: the conjugate is made first, because no kernel multiplies by one.
Tensors complex_mul_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor conjugate = clone(s, node.saved(s, "other"));
  return {mul_complex(s, gradients[0], conjugate)};
}

}  // namespace

Tensor mul_complex(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.mul.complex", OperatorKind::pointwise};
  const LetGo let_go{self, other};
  const NodeRef node = make_node(s, "MulBackward0", {&self}, complex_mul_backward);
  if (node) node->save(s, "other", other);
  const TensorPointers operands{&self, &other};
  Tensor result = allocate_output(s, operands, self.dtype(), false);
  dispatched(s, op, operands, {&result});
  set_history(s, result, node);
  return result;
}

Tensor polar(Session& s, Tensor lengths, Tensor angles) {
  static constexpr Operator op{"aten.polar.default", OperatorKind::pointwise};
  const LetGo let_go{lengths, angles};
  Dims sizes = angles.sizes();
  sizes.push_back(2);
  const Tensor result = allocate(s, like(angles), sizes);
  dispatched(s, op, {&lengths, &angles}, {&result});
  return result;
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/aten/random.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"

namespace shardscope::eager {
namespace {

constexpr Operator native_dropout_op{"aten.native_dropout.default", OperatorKind::random};
constexpr Operator native_dropout_backward_op{"aten.native_dropout_backward.default",
                                              OperatorKind::pointwise};
constexpr Operator bernoulli_op{"aten.bernoulli_.float", OperatorKind::random};
constexpr Operator divide_op{"aten.div_.Scalar", OperatorKind::pointwise};

Tensors native_dropout_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor mask = node.saved(s, "result1");
  const Tensor gradient = allocate_like(s, gradients[0], gradients[0].dtype());
  dispatched(s, native_dropout_backward_op, {&gradients[0], &mask}, {&gradient});
  return {gradient};
}

/// Source: ATen/native/cuda/Dropout.cu, dropout_cuda: the mask is made before the result.
Tensor native_dropout(Session& s, const Tensor& input) {
  const NodeRef node = make_node(s, "NativeDropoutBackward0", {&input}, native_dropout_backward);
  const Tensor mask = allocate_like(s, input, Dtype::boolean);
  const Tensor output = allocate_like(s, input, input.dtype());
  dispatched(s, native_dropout_op, {&input}, {&output, &mask});
  set_history(s, output, node);
  if (node) node->save_output(s, "result1", mask);
  return output;
}

}  // namespace

/// Source: ATen/native/Dropout.cpp, dropout and _dropout_impl.
Tensor dropout(Session& s, Tensor input, double probability, bool training) {
  const LetGo let_go{input};
  if (probability == 0 || !training || input.numel() == 0) return input;
  const bool fused = input.device() == Device::cuda && probability < 1;
  if (fused) return native_dropout(s, input);
  if (probability == 1) return mul(s, input, zeros(s, {}, like(input)));
  const Tensor noise = empty_like(s, input);
  dispatched(s, bernoulli_op, {&noise}, {&noise});
  dispatched(s, divide_op, {&noise}, {&noise});
  return mul(s, input, noise);
}

}  // namespace shardscope::eager

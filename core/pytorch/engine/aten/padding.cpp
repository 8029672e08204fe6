#include "core/pytorch/engine/aten/padding.h"

#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

constexpr Operator pad_op{"aten.constant_pad_nd.default", OperatorKind::copy};

Tensor pad_without_grad(Session& s, const Tensor& self, std::int64_t count) {
  Dims sizes = self.sizes();
  sizes[-1] += count;
  const Tensor result = allocate(s, like(self), sizes);
  dispatched(s, pad_op, {&self}, {&result});
  return result;
}

}  // namespace

Tensor pad_last(Session& s, Tensor self, std::int64_t count) {
  const LetGo let_go{self};
  const auto formula = [count](Session& session, Node&, Tensors& gradients) -> Tensors {
    return {pad_without_grad(session, gradients[0], -count)};
  };
  const NodeRef node = make_node(s, "ConstantPadNdBackward0", {&self}, formula);
  const Tensor result = pad_without_grad(s, self, count);
  set_history(s, result, node);
  return result;
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/aten/softmax.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager {
namespace {

constexpr Operator softmax_op{"aten._softmax.default", OperatorKind::reduction};
constexpr Operator log_softmax_op{"aten._log_softmax.default", OperatorKind::reduction};
constexpr Operator safe_softmax_op{"aten._safe_softmax.default", OperatorKind::reduction};
constexpr Operator softmax_backward_op{"aten._softmax_backward_data.default",
                                       OperatorKind::reduction};
constexpr Operator log_softmax_backward_op{"aten._log_softmax_backward_data.default",
                                           OperatorKind::reduction};

struct Variant {
  const Operator& forward;
  const Operator& backward;
  std::string_view node;
};
constexpr Variant plain{softmax_op, softmax_backward_op, "SoftmaxBackward0"};
constexpr Variant logarithm{log_softmax_op, log_softmax_backward_op, "LogSoftmaxBackward0"};
constexpr Variant safe{safe_softmax_op, softmax_backward_op, "SafeSoftmaxBackward0"};

/// `half_to_float`: the kernel itself widens float16.
Tensor run(Session& s, const Variant& variant, Tensor self, bool half_to_float) {
  const LetGo let_go{self};
  const auto formula = [&op = variant.backward, dtype = self.dtype()](
                           Session& session, Node& node, Tensors& gradients) -> Tensors {
    const Tensor result = node.saved(session, "result");
    const Tensor gradient = allocate(session, like(result, dtype), gradients[0].sizes());
    dispatched(session, op, {&gradients[0], &result}, {&gradient});
    return {gradient};
  };
  const NodeRef node = make_node(s, variant.node, {&self}, formula);
  const Tensor result =
      allocate(s, like(self, half_to_float ? Dtype::float32 : self.dtype()), self.sizes());
  dispatched(s, variant.forward, {&self}, {&result});
  set_history(s, result, node);
  if (node) node->save_output(s, "result", result);
  return result;
}

/// at::softmax(self, dim, dtype); ATen/native/SoftMax.cpp.
Tensor converted(Session& s, const Variant& variant, Tensor self, std::optional<Dtype> dtype) {
  const LetGo let_go{self};
  const bool eligible = self.is_floating_point() && self.dtype() != Dtype::float64;
  if (s.autocast.enabled && self.device() == Device::cuda && eligible && !dtype)
    dtype = Dtype::float32;
  if (self.device() == Device::cuda && self.dtype() == Dtype::float16 && dtype == Dtype::float32)
    return run(s, variant, std::move(self), true);
  // The converted input is a local of at::softmax and goes with it.
  return run(s, variant, dtype ? to(s, self, *dtype) : self, false);
}

}  // namespace

Tensor softmax(Session& s, Tensor self, int /*dim*/, std::optional<Dtype> dtype) {
  return converted(s, plain, std::move(self), dtype);
}

Tensor log_softmax(Session& s, Tensor self, int /*dim*/, std::optional<Dtype> dtype) {
  return converted(s, logarithm, std::move(self), dtype);
}

Tensor safe_softmax(Session& s, Tensor self) { return run(s, safe, std::move(self), false); }

}  // namespace shardscope::eager

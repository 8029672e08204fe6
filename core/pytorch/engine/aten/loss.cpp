#include "core/pytorch/engine/aten/loss.h"

#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"

namespace shardscope::eager {
namespace {

constexpr Operator nll_loss_op{"aten.nll_loss_forward.default", OperatorKind::reduction};
constexpr Operator nll_loss_backward_op{"aten.nll_loss_backward.default", OperatorKind::indexing};
constexpr Operator mse_loss_op{"aten.mse_loss.default", OperatorKind::reduction};
constexpr Operator mse_loss_backward_op{"aten.mse_loss_backward.default", OperatorKind::pointwise};
constexpr Operator bce_op{"aten.binary_cross_entropy_with_logits.default", OperatorKind::reduction};

Tensors nll_loss_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor self = node.saved(s, "self");
  const Tensor target = node.saved(s, "target");
  const Tensor total_weight = node.saved(s, "total_weight");
  const Tensor gradient = allocate(s, like(self), self.sizes());
  dispatched(s, nll_loss_backward_op, {&gradients[0], &self, &target, &total_weight}, {&gradient});
  return {gradient};
}

Tensor nll_loss(Session& s, Tensor self, Tensor target) {
  const LetGo let_go{self, target};
  const NodeRef node = make_node(s, "NllLossBackward0", {&self}, nll_loss_backward);
  if (node) {
    node->save(s, "self", self);
    node->save(s, "target", target);
  }
  const Tensor output = allocate(s, like(self), {});
  const Tensor total_weight = allocate(s, like(self), {});
  dispatched(s, nll_loss_op, {&self, &target}, {&output, &total_weight});
  set_history(s, output, node);
  if (node) node->save_output(s, "total_weight", total_weight);
  return output;
}

Tensors mse_loss_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor self = node.saved(s, "self");
  const Tensor target = node.saved(s, "target");
  const auto one = [&](std::size_t i, const Tensor& a, const Tensor& b) {
    if (!node.needs(i)) return Tensor();
    const Tensor gradient = allocate_like(s, a, a.dtype());
    dispatched(s, mse_loss_backward_op, {&gradients[0], &a, &b}, {&gradient});
    return gradient;
  };
  Tensor of_self = one(0, self, target);
  return {std::move(of_self), one(1, target, self)};
}

/// binary_cross_entropy_with_logits_backward without weights, ATen/native/Loss.cpp.
Tensors bce_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor logits = node.saved(s, "self");
  const Tensor target = node.saved(s, "target");
  Tensor gradient = mul(s, sub(s, sigmoid(s, logits), target), gradients[0]);
  return {div_(s, std::move(gradient), static_cast<double>(logits.numel())), {}};
}

}  // namespace

Tensor cross_entropy(Session& s, Tensor logits, Tensor target) {
  const LetGo let_go{logits, target};
  // On the cpu the whole function is on autocast's float32 list, on cuda its two halves are, the
  // first of them told a dtype already.
  const Tensor input = s.settings.device == Device::cpu ? to_float32(s, logits) : logits;
  const Tensor logarithms = log_softmax(s, input, 1, input.dtype());
  return nll_loss(s, to_float32(s, logarithms), target);
}

Tensor mse_loss(Session& s, Tensor input, Tensor target) {
  const LetGo let_go{input, target};
  const Tensor b = to_float32(s, target);
  const Tensor a = to_float32(s, input);
  const NodeRef node = make_node(s, "MseLossBackward0", {&a, &b}, mse_loss_backward);
  if (node) {
    node->save(s, "self", a);
    node->save(s, "target", b);
  }
  // The structured kernel allocates the output before the mean and only then shrinks its sizes.
  const Tensor output =
      s.settings.fake_tensors
          ? allocate(s, like(a), {})
          : alias_of(allocate(s, like(a), broadcast(a.sizes(), b.sizes())), {}, {}, 0);
  dispatched(s, mse_loss_op, {&a, &b}, {&output});
  set_history(s, output, node);
  return output;
}

Tensor binary_cross_entropy_with_logits(Session& s, Tensor logits, Tensor target) {
  const LetGo let_go{logits, target};
  const Tensor b = to_float32(s, target);
  const Tensor a = to_float32(s, logits);
  const NodeRef node =
      make_node(s, "BinaryCrossEntropyWithLogitsBackward0", {&a, &b}, bce_backward);
  if (node) {
    node->save(s, "self", a);
    node->save(s, "target", b);
  }
  const Tensor output = allocate(s, like(a), {});
  dispatched(s, bce_op, {&a, &b}, {&output});
  set_history(s, output, node);
  return output;
}

}  // namespace shardscope::eager

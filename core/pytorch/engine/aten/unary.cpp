// Elementwise operators of one tensor, as a table of what they save and their gradients.
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/view_backward.h"

namespace shardscope::eager {
namespace {

enum class Saves : std::uint8_t { nothing, self, result };

/// The gradient of the input, of the output's and of what was saved.
using Gradient = Tensor (*)(Session&, const Tensor& gradient, const Tensor& saved);

struct Unary {
  Operator op;
  std::string_view node;
  Saves saves = Saves::nothing;
  Gradient gradient = nullptr;
  bool to_floating = false;      ///< integers become float32
  bool float32_on_cuda = false;  ///< under autocast
};

Tensor apply(Session& s, const Unary& unary, Tensor self) {
  const Tensor input = unary.float32_on_cuda ? to_float32_on_cuda(s, self) : std::move(self);
  self.reset();  // NOLINT(bugprone-use-after-move): moved from, it is empty
  const NodeRef node = make_node(
      s, unary.node, {&input}, [&unary](Session& in, Node& me, Tensors& gradients) -> Tensors {
        const Tensor saved = unary.saves == Saves::nothing
                                 ? Tensor()
                                 : me.saved(in, unary.saves == Saves::self ? "self" : "result");
        return {unary.gradient(in, gradients[0], saved)};
      });
  if (node && !unary.gradient) refuse_gradient(unary.op.name);
  if (node && unary.saves == Saves::self) node->save(s, "self", input);
  const Dtype dtype = unary.to_floating ? to_floating(input.dtype()) : input.dtype();
  Tensor result = allocate_output(s, {&input}, dtype);
  dispatched(s, unary.op, {&input}, {&result});
  set_history(s, result, node);
  if (node && unary.saves == Saves::result) node->save_output(s, "result", result);
  return result;
}

/// An operator of the gradient and one saved tensor, as tanh_backward.
Tensor gradient_operator(Session& s, const Operator& op, const Tensor& gradient,
                         const Tensor& saved) {
  Tensor result = allocate_output(s, {&gradient, &saved}, result_type(gradient, saved));
  dispatched(s, op, {&gradient, &saved}, {&result});
  return result;
}

Tensor sgn(Session& s, const Tensor& self) {
  static constexpr Operator op{"aten.sgn.default", OperatorKind::pointwise};
  Tensor result = allocate_output(s, {&self}, self.dtype());
  dispatched(s, op, {&self}, {&result});
  return result;
}

/// clamp_backward, FunctionsManual.cpp.
Tensor of_clamp_max(Session& s, const Tensor& gradient, const Tensor& self) {
  const Tensor zero = scalar_tensor(s, like(gradient));
  return where(s, compare(s, Comparison::le, self, 1), gradient, zero);
}
Tensor of_clamp(Session& s, const Tensor& gradient, const Tensor& self) {
  static constexpr Operator both{"aten.logical_and_.default", OperatorKind::pointwise};
  const Tensor zero = scalar_tensor(s, like(gradient));
  Tensor inside = compare(s, Comparison::ge, self, 1);
  {
    const Tensor below = compare(s, Comparison::le, self, 1);
    dispatched(s, both, {&inside, &below}, {&inside});
  }
  return where(s, std::move(inside), gradient, zero);
}

Tensor of_neg(Session& s, const Tensor& gradient, const Tensor&) { return neg(s, gradient); }

Tensor of_abs(Session& s, const Tensor& gradient, const Tensor& self) {
  const Tensor sign = sgn(s, self);
  return mul(s, gradient, sign);
}

Tensor of_exp(Session& s, const Tensor& gradient, const Tensor& result) {
  return mul(s, gradient, result);
}

Tensor of_log(Session& s, const Tensor& gradient, const Tensor& self) {
  return div(s, gradient, self);
}

Tensor of_sqrt(Session& s, const Tensor& gradient, const Tensor& result) {
  const Tensor twice = mul_scalar(s, result, 2);
  return div(s, gradient, twice);
}

/// -0.5 * grad * result.pow(3): operands from the right.
Tensor of_rsqrt(Session& s, const Tensor& gradient, const Tensor& result) {
  const Tensor cube = pow(s, result, 3);
  const Tensor half = mul_scalar(s, gradient, -0.5);
  return mul(s, half, cube);
}

/// -grad * (result * result).
Tensor of_reciprocal(Session& s, const Tensor& gradient, const Tensor& result) {
  const Tensor square = mul(s, result, result);
  const Tensor negative = neg(s, gradient);
  return mul(s, negative, square);
}

Tensor of_sin(Session& s, const Tensor& gradient, const Tensor& self) {
  const Tensor cosine = cos(s, self);
  return mul(s, gradient, cosine);
}

Tensor of_cos(Session& s, const Tensor& gradient, const Tensor& self) {
  const Tensor sine = sin(s, self);
  const Tensor negative = neg(s, sine);
  return mul(s, gradient, negative);
}

Tensor of_tanh(Session& s, const Tensor& gradient, const Tensor& result) {
  static constexpr Operator op{"aten.tanh_backward.default", OperatorKind::pointwise};
  return gradient_operator(s, op, gradient, result);
}

Tensor of_sigmoid(Session& s, const Tensor& gradient, const Tensor& result) {
  static constexpr Operator op{"aten.sigmoid_backward.default", OperatorKind::pointwise};
  return gradient_operator(s, op, gradient, result);
}

Tensor of_relu(Session& s, const Tensor& gradient, const Tensor& result) {
  static constexpr Operator op{"aten.threshold_backward.default", OperatorKind::pointwise};
  return gradient_operator(s, op, gradient, result);
}

Tensor of_silu(Session& s, const Tensor& gradient, const Tensor& self) {
  static constexpr Operator op{"aten.silu_backward.default", OperatorKind::pointwise};
  return gradient_operator(s, op, gradient, self);
}

Tensor of_gelu(Session& s, const Tensor& gradient, const Tensor& self) {
  static constexpr Operator op{"aten.gelu_backward.default", OperatorKind::pointwise};
  return gradient_operator(s, op, gradient, self);
}

constexpr Operator pointwise(std::string_view name) { return {name, OperatorKind::pointwise}; }

constexpr Unary neg_rule{pointwise("aten.neg.default"), "NegBackward0", Saves::nothing, of_neg};
constexpr Unary sign_rule{pointwise("aten.sign.default"), "SignBackward0"};
constexpr Unary abs_rule{pointwise("aten.abs.default"), "AbsBackward0", Saves::self, of_abs};
constexpr Unary exp_rule{
    pointwise("aten.exp.default"), "ExpBackward0", Saves::result, of_exp, true, true};
constexpr Unary log_rule{
    pointwise("aten.log.default"), "LogBackward0", Saves::self, of_log, true, true};
constexpr Unary sqrt_rule{pointwise("aten.sqrt.default"), "SqrtBackward0", Saves::result, of_sqrt,
                          true};
constexpr Unary rsqrt_rule{
    pointwise("aten.rsqrt.default"), "RsqrtBackward0", Saves::result, of_rsqrt, true, true};
constexpr Unary reciprocal_rule{pointwise("aten.reciprocal.default"),
                                "ReciprocalBackward0",
                                Saves::result,
                                of_reciprocal,
                                true,
                                true};
constexpr Unary log1p_rule{
    pointwise("aten.log1p.default"), "Log1PBackward0", Saves::self, nullptr, true, true};
constexpr Unary floor_rule{pointwise("aten.floor.default"), "FloorBackward0"};
constexpr Unary sin_rule{pointwise("aten.sin.default"), "SinBackward0", Saves::self, of_sin, true};
constexpr Unary cos_rule{pointwise("aten.cos.default"), "CosBackward0", Saves::self, of_cos, true};
constexpr Unary tanh_rule{pointwise("aten.tanh.default"), "TanhBackward0", Saves::result, of_tanh,
                          true};
constexpr Unary sigmoid_rule{pointwise("aten.sigmoid.default"), "SigmoidBackward0", Saves::result,
                             of_sigmoid, true};
constexpr Unary relu_rule{pointwise("aten.relu.default"), "ReluBackward0", Saves::result, of_relu};
constexpr Unary silu_rule{pointwise("aten.silu.default"), "SiluBackward0", Saves::self, of_silu};
constexpr Unary gelu_rule{pointwise("aten.gelu.default"), "GeluBackward0", Saves::self, of_gelu};
constexpr Unary clamp_rule{pointwise("aten.clamp.default"), "ClampBackward1", Saves::self,
                           of_clamp};
constexpr Unary clamp_max_rule{pointwise("aten.clamp.default"), "ClampBackward1", Saves::self,
                               of_clamp_max};

}  // namespace

Tensor neg(Session& s, Tensor self) { return apply(s, neg_rule, std::move(self)); }
Tensor sign(Session& s, Tensor self) { return apply(s, sign_rule, std::move(self)); }
Tensor abs(Session& s, Tensor self) { return apply(s, abs_rule, std::move(self)); }
Tensor exp(Session& s, Tensor self) { return apply(s, exp_rule, std::move(self)); }
Tensor log(Session& s, Tensor self) { return apply(s, log_rule, std::move(self)); }
Tensor log1p(Session& s, Tensor self) { return apply(s, log1p_rule, std::move(self)); }
Tensor sqrt(Session& s, Tensor self) { return apply(s, sqrt_rule, std::move(self)); }
Tensor rsqrt(Session& s, Tensor self) { return apply(s, rsqrt_rule, std::move(self)); }
Tensor reciprocal(Session& s, Tensor self) { return apply(s, reciprocal_rule, std::move(self)); }
Tensor floor(Session& s, Tensor self) { return apply(s, floor_rule, std::move(self)); }
Tensor sin(Session& s, Tensor self) { return apply(s, sin_rule, std::move(self)); }
Tensor cos(Session& s, Tensor self) { return apply(s, cos_rule, std::move(self)); }
Tensor tanh(Session& s, Tensor self) { return apply(s, tanh_rule, std::move(self)); }
Tensor sigmoid(Session& s, Tensor self) { return apply(s, sigmoid_rule, std::move(self)); }
Tensor relu(Session& s, Tensor self) { return apply(s, relu_rule, std::move(self)); }
Tensor silu(Session& s, Tensor self) { return apply(s, silu_rule, std::move(self)); }
Tensor gelu(Session& s, Tensor self) { return apply(s, gelu_rule, std::move(self)); }
Tensor clamp(Session& s, Tensor self) { return apply(s, clamp_rule, std::move(self)); }
Tensor clamp_max(Session& s, Tensor self) { return apply(s, clamp_max_rule, std::move(self)); }

Tensor clamp_(Session& s, Tensor self) {
  static constexpr Operator op{"aten.clamp_.default", OperatorKind::pointwise};
  const auto formula = [](Session& in, Node& me, Tensors& gradients) -> Tensors {
    return {of_clamp(in, gradients[0], me.saved(in, "self"))};
  };
  const NodeRef node = make_node(s, "ClampBackward1", {&self}, formula);
  if (node && (self.is_leaf() || self->is_view)) refuse_gradient(op.name);
  if (node) node->save(s, "self", clone(s, self));
  ++self->version;
  dispatched(s, op, {&self}, {&self});
  set_history(s, self, node);
  return self;
}

}  // namespace shardscope::eager

// Elementwise operators: TensorIterator's output strides and type promotion.
#pragma once

#include <string_view>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// A Python number given to an operator: int, float or bool.
struct Number {
  double value = 0;
  enum class Kind : std::uint8_t { boolean, integer, floating } kind = Kind::floating;
  constexpr Number(bool v) : value(v), kind(Kind::boolean) {}  // NOLINT
  constexpr Number(int v) : value(v), kind(Kind::integer) {}   // NOLINT
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Number(std::int64_t v) : value(static_cast<double>(v)), kind(Kind::integer) {}
  constexpr Number(double v) : value(v) {}  // NOLINT
};

/// at::result_type.
Dtype result_type(const Tensor& a, const Tensor& b);
Dtype result_type(const Tensor& a, Number b);

// Arithmetic; the first row of each is Python's operator.
Tensor add(Session& s, Tensor self, Tensor other);
Tensor add(Session& s, Tensor self, Number other);
Tensor sub(Session& s, Tensor self, Tensor other);
Tensor sub(Session& s, Tensor self, Number other);
/// number - tensor.
Tensor rsub(Session& s, Tensor self, Number other);
Tensor mul(Session& s, Tensor self, Tensor other);
Tensor mul(Session& s, Tensor self, Number other);
Tensor div(Session& s, Tensor self, Tensor other);
Tensor div(Session& s, Tensor self, Number other);
/// `self * number` and `self / number` as C++ writes them: aten.mul.Scalar, aten.div.Scalar.
Tensor mul_scalar(Session& s, Tensor self, Number other);
Tensor div_scalar(Session& s, Tensor self, Number other);
Tensor floor_divide(Session& s, Tensor self, Number other);
Tensor pow(Session& s, Tensor self, Number exponent);
/// Of what requires no gradient.
Tensor pow(Session& s, Tensor self, Tensor exponent);
/// self + first * second.
Tensor addcmul(Session& s, Tensor self, Tensor first, Tensor second);
Tensor maximum(Session& s, Tensor self, Tensor other);
Tensor minimum(Session& s, Tensor self, Tensor other);

// In place.
Tensor add_(Session& s, Tensor self, Tensor other);
Tensor add_(Session& s, Tensor self, Number other);
Tensor sub_(Session& s, Tensor self, Tensor other);
Tensor mul_(Session& s, Tensor self, Tensor other);
Tensor mul_(Session& s, Tensor self, Number other);
Tensor div_(Session& s, Tensor self, Tensor other);
Tensor clamp_(Session& s, Tensor self);
Tensor div_(Session& s, Tensor self, Number other);

// Of one tensor.
Tensor neg(Session& s, Tensor self);
Tensor sign(Session& s, Tensor self);  ///< of what requires no gradient
Tensor abs(Session& s, Tensor self);
Tensor exp(Session& s, Tensor self);
Tensor log(Session& s, Tensor self);
Tensor log1p(Session& s, Tensor self);  ///< of what requires no gradient
Tensor sqrt(Session& s, Tensor self);
Tensor rsqrt(Session& s, Tensor self);
Tensor reciprocal(Session& s, Tensor self);
Tensor sin(Session& s, Tensor self);
Tensor cos(Session& s, Tensor self);
Tensor tanh(Session& s, Tensor self);
Tensor sigmoid(Session& s, Tensor self);
Tensor relu(Session& s, Tensor self);
Tensor floor(Session& s, Tensor self);
Tensor silu(Session& s, Tensor self);
Tensor gelu(Session& s, Tensor self);
Tensor clamp(Session& s, Tensor self);
Tensor clamp_max(Session& s, Tensor self);  ///< with an upper bound alone
Tensor isinf(Session& s, Tensor self);

// Comparisons and logic: bool, no gradient.
enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge };
Tensor compare(Session& s, Comparison comparison, Tensor self, Tensor other);
Tensor compare(Session& s, Comparison comparison, Tensor self, Number other);
Tensor bitwise_and(Session& s, Tensor self, Tensor other);
Tensor bitwise_or(Session& s, Tensor self, Tensor other);
Tensor bitwise_not(Session& s, Tensor self);
Tensor logical_not(Session& s, Tensor self);

Tensor where(Session& s, Tensor condition, Tensor self, Tensor other);
Tensor masked_fill(Session& s, Tensor self, Tensor mask, Number value);
/// In place, of what requires no gradient.
Tensor masked_fill_(Session& s, Tensor self, Tensor mask, Number value);

}  // namespace shardscope::eager

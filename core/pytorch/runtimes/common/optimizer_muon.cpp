// Muon as LLaMA-Factory 0.9.5 (third_party/muon) and ms-swift have it, of MoonshotAI's Moonlight:
// one parameter after the other, without foreach.
#include <algorithm>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager {
namespace {

/// A Python float whose value decides nothing here.
constexpr double any_number = 0.5;
constexpr int newton_schulz_steps = 5;
constexpr Operator lerp_{"aten.lerp_.Scalar", OperatorKind::pointwise};

/// b * A + c * A @ A.
Tensor polynomial(Session& s, const Tensor& gram) {
  const Tensor linear = mul(s, gram, any_number);
  Tensor product = mul(s, gram, any_number);
  product = matmul(s, product, gram);
  return add(s, linear, product);
}

/// zeropower_via_newtonschulz5. Each variable lives until the next value has been computed.
Tensor orthogonalized(Session& s, const Tensor& gradient) {
  const bool is_tall = gradient.sizes()[0] > gradient.sizes()[1];
  Tensor x = to(s, gradient, Dtype::bfloat16);
  if (is_tall) x = t(s, x);
  x = div(s, x, add(s, vector_norm(s, x), any_number));
  Tensor gram, factor;
  for (int step = 0; step < newton_schulz_steps; ++step) {
    gram = matmul(s, x, t(s, x));
    factor = polynomial(s, gram);
    const Tensor scaled = mul(s, x, any_number);
    x = add(s, scaled, matmul(s, factor, x));
  }
  return is_tall ? t(s, x) : x;
}

}  // namespace

void ParameterOptimizer::muon_step(Session& s) {
  // Variables of Python's loop, which live until the next parameter replaces them.
  Tensor gradient, update;
  for (const bool by_adamw : {false, true})
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor& parameter = parameters_[i];
      if (!parameter.grad() || is_left_to_adamw(parameter) != by_adamw) continue;
      gradient = parameter.grad();
      State& state = states_[i];
      if (!state.first_moment) state.first_moment = zeros_like(s, gradient);
      if (by_adamw) {
        if (!state.second_moment) state.second_moment = zeros_like(s, gradient);
        dispatched(s, lerp_, {&state.first_moment, &gradient}, {&state.first_moment});
        const Tensor square = pow(s, gradient, 2);
        dispatched(s, lerp_, {&state.second_moment, &square}, {&state.second_moment});
        gradient = div(s, state.first_moment, add(s, sqrt(s, state.second_moment), any_number));
        mul_(s, parameter, any_number);
        add_(s, parameter, gradient);
        continue;
      }
      add_(s, mul_(s, state.first_moment, any_number), gradient);
      gradient = add(s, gradient, state.first_moment);
      update = orthogonalized(s, gradient);
      mul_(s, parameter, any_number);
      add_(s, parameter, update);
    }
}

bool ParameterOptimizer::is_left_to_adamw(const Tensor& parameter) const {
  return parameter.sizes().size() != 2 ||
         std::ranges::any_of(left_to_adamw_,
                             [&](const Tensor& other) { return other.is(parameter); });
}

}  // namespace shardscope::eager

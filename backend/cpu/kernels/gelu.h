// gelu_tanh(h) = h * sigmoid(2 u) with u = sqrt(2 / pi) (h + 0.044715 h^3), and its derivative.
#pragma once

#include "backend/cpu/kernels/simd_math.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

inline constexpr float two_root_two_over_pi = 1.5957691216057308f;
inline constexpr float gelu_cubic = 0.044715f;

SHARDSCOPE_INLINE Sigmoid gelu_gate(Floats h) {
  return sigmoid(two_root_two_over_pi * h * (1.0f + gelu_cubic * h * h));
}

SHARDSCOPE_INLINE Floats gelu(Floats h) { return h * gelu_gate(h).value; }

SHARDSCOPE_INLINE Floats gelu_slope(Floats h) {
  const Sigmoid gate = gelu_gate(h);
  const Floats slope = two_root_two_over_pi * (1.0f + 3.0f * gelu_cubic * h * h);
  return gate.value + h * (gate.value * gate.complement) * slope;
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA

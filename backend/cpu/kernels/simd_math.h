// Exponential and what follows from it, on vectors. Errors are at most 2 units in the last place of
// fp32; NaN stays NaN.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

/// 2^n for whole n in [-252, 254], in two factors so that results below the smallest normal number
/// are reached too.
SHARDSCOPE_INLINE Floats scaled_by_power_of_two(Floats v, Floats n) {
#ifdef __AVX512F__
  return (Floats)_mm512_scalef_ps((__m512)v, (__m512)n);
#else
  const Ints whole = __builtin_convertvector(n, Ints);
  const Ints first = whole >> 1;
  const Ints second = whole - first;
  return v * (Floats)((first + 127) << 23) * (Floats)((second + 127) << 23);
#endif
}

/// e^x. Range reduction and degree-6 polynomial as in Cephes' expf.
SHARDSCOPE_INLINE Floats exp(Floats x) {
  // Beyond these the result is infinity or 0 in any case; in this order of operands NaN passes.
  x = larger(broadcast(-104.0f), smaller(broadcast(89.0f), x));
  const Floats magic =
      broadcast(12582912.0f);  // adding 1.5 * 2^23 rounds to the nearest whole number
  const Floats n = (x * 1.44269504088896341f + magic) - magic;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r;
  return scaled_by_power_of_two(p + 1.0f, n);
}

/// 1 / (1 + e^-x) and its complement, both accurate where they are small.
struct Sigmoid {
  Floats value;
  Floats complement;  ///< 1 - value
};
SHARDSCOPE_INLINE Sigmoid sigmoid(Floats x) {
  const Floats e = exp(-absolute(x));
  const Floats large = 1.0f / (1.0f + e);
  const Floats small = e * large;
  const Ints positive = x > 0.0f;
  return {select(positive, large, small), select(positive, small, large)};
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA

// Vectors of fp32 as wide as the instruction set has them, with tails: the same arithmetic for
// every element, so that a result does not depend on where in a buffer an element lies. In memory
// elements are float or Bfloat16; a load widens, a store rounds.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/isa.h"
#include "core/base/bfloat16.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

using Floats = float __attribute__((vector_size(lanes * 4)));
using Ints = std::int32_t __attribute__((vector_size(lanes * 4)));
using Words = std::uint32_t __attribute__((vector_size(lanes * 4)));
/// As many bfloat16 as a vector has floats.
using UpperHalves = std::uint16_t __attribute__((vector_size(lanes * 2)));
/// Half a vector of floats, and as many doubles: a pair of the latter is what a vector of floats
/// widens to.
using HalfFloats = float __attribute__((vector_size(lanes * 2)));
using Doubles = double __attribute__((vector_size(lanes * 4)));

#define SHARDSCOPE_INLINE inline __attribute__((always_inline))

/// How much of a vector a load or store touches: all of it, or the first `count` elements.
struct Whole {};
struct Part {
  int count;
};

SHARDSCOPE_INLINE float to_float(float value) { return value; }

/// Minus 0 and not plus, which would be an addition: -0 + 0 is another number.
SHARDSCOPE_INLINE Floats broadcast(float value) { return value - Floats{}; }

SHARDSCOPE_INLINE Floats load(const float* from, Whole = {}) {
  Floats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
SHARDSCOPE_INLINE void store(float* to, Floats v, Whole = {}) { std::memcpy(to, &v, sizeof v); }

#ifdef __AVX512F__
SHARDSCOPE_INLINE Floats load(const float* from, Part part) {
  return (Floats)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << part.count) - 1u), from);
}
SHARDSCOPE_INLINE void store(float* to, Floats v, Part part) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << part.count) - 1u), (__m512)v);
}
#else
SHARDSCOPE_INLINE Floats load(const float* from, Part part) {
  Floats v{};
  for (int i = 0; i < part.count; ++i) v[i] = from[i];
  return v;
}
SHARDSCOPE_INLINE void store(float* to, Floats v, Part part) {
  for (int i = 0; i < part.count; ++i) to[i] = v[i];
}
#endif

#ifdef __AVX512F__
// One instruction each, which GCC 12 does not find.
SHARDSCOPE_INLINE Words zero_extended(UpperHalves halves) {
  return (Words)_mm512_cvtepu16_epi32((__m256i)halves);
}
SHARDSCOPE_INLINE UpperHalves lower_halves(Words words) {
  return (UpperHalves)_mm512_cvtepi32_epi16((__m512i)words);
}
#else
SHARDSCOPE_INLINE Words zero_extended(UpperHalves halves) {
  return __builtin_convertvector(halves, Words);
}
SHARDSCOPE_INLINE UpperHalves lower_halves(Words words) {
  return __builtin_convertvector(words, UpperHalves);
}
#endif

SHARDSCOPE_INLINE Floats widened(UpperHalves halves) {
  return (Floats)(zero_extended(halves) << 16);
}
/// As `to_bfloat16`.
SHARDSCOPE_INLINE UpperHalves rounded(Floats v) {
  const Words bits = (Words)v;
  const Words nearest = bits + 0x7FFF + (bits >> 16 & 1);
  const Words kept = v != v ? bits | 0x400000 : nearest;
  return lower_halves(kept >> 16);
}

SHARDSCOPE_INLINE Floats load(const Bfloat16* from, Whole = {}) {
  UpperHalves halves;
  std::memcpy(&halves, from, sizeof halves);
  return widened(halves);
}
SHARDSCOPE_INLINE void store(Bfloat16* to, Floats v, Whole = {}) {
  const UpperHalves halves = rounded(v);
  std::memcpy(to, &halves, sizeof halves);
}
SHARDSCOPE_INLINE Floats load(const Bfloat16* from, Part part) {
  UpperHalves halves{};
  std::memcpy(&halves, from, sizeof(Bfloat16) * static_cast<std::size_t>(part.count));
  return widened(halves);
}
SHARDSCOPE_INLINE void store(Bfloat16* to, Floats v, Part part) {
  const UpperHalves halves = rounded(v);
  std::memcpy(to, &halves, sizeof(Bfloat16) * static_cast<std::size_t>(part.count));
}

/// Elements beyond the part become 0, so that they do not count in sums.
SHARDSCOPE_INLINE Floats keep(Floats v, Whole) { return v; }
SHARDSCOPE_INLINE Floats keep(Floats v, Part part) {
  float kept[lanes] = {};
  std::memcpy(kept, &v, sizeof(float) * static_cast<std::size_t>(part.count));
  return load(kept);
}

/// Calls `body(index, whole or part)` for every vector of [begin, end).
template <class Body>
SHARDSCOPE_INLINE void for_vectors(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) body(i, Whole{});
  if (i < end) body(i, Part{static_cast<int>(end - i)});
}

/// Where the condition holds `a`, else `b`. Comparisons with NaN do not hold.
SHARDSCOPE_INLINE Floats select(Ints condition, Floats a, Floats b) { return condition ? a : b; }
/// The larger and the smaller of each pair; `b` where one is NaN.
#ifdef __AVX512F__
SHARDSCOPE_INLINE Floats larger(Floats a, Floats b) {
  return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
}
SHARDSCOPE_INLINE Floats smaller(Floats a, Floats b) {
  return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
}
#else
SHARDSCOPE_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }
SHARDSCOPE_INLINE Floats smaller(Floats a, Floats b) { return a < b ? a : b; }
#endif

SHARDSCOPE_INLINE Floats absolute(Floats v) { return (Floats)((Ints)v & 0x7fffffff); }

/// Sum of all elements in a fixed order (halves, quarters, ...).
#ifdef __AVX512F__
SHARDSCOPE_INLINE float sum_of(Floats v) { return _mm512_reduce_add_ps((__m512)v); }
SHARDSCOPE_INLINE float largest_of(Floats v) { return _mm512_reduce_max_ps((__m512)v); }
#else
SHARDSCOPE_INLINE float sum_of(Floats v) {
  float x[lanes];
  std::memcpy(x, &v, sizeof v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) x[i] += x[i + half];
  return x[0];
}
SHARDSCOPE_INLINE float largest_of(Floats v) {
  float x[lanes];
  std::memcpy(x, &v, sizeof v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
  return x[0];
}
#endif
SHARDSCOPE_INLINE double sum_of(Doubles v) {
  double sum = 0;
  for (int i = 0; i < lanes / 2; ++i) sum += v[i];
  return sum;
}

/// Turns rows into columns: the off-diagonal halves are exchanged, then the quarters within each
/// half, and so on.
SHARDSCOPE_INLINE void transpose(Floats (&rows)[lanes]) {
#pragma GCC unroll 4
  for (int half = lanes / 2; half > 0; half /= 2) {
    Ints upper{}, lower{};
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      upper[i] = i & half ? lanes + i - half : i;
      lower[i] = i & half ? lanes + i : i + half;
    }
#pragma GCC unroll 16
    for (int row = 0; row < lanes; ++row) {
      if (row & half) continue;
      const Floats a = rows[row];
      const Floats b = rows[row + half];
      rows[row] = __builtin_shuffle(a, b, upper);
      rows[row + half] = __builtin_shuffle(a, b, lower);
    }
  }
}

/// The lower and the upper half of a vector in double precision.
SHARDSCOPE_INLINE Doubles widen_low(Floats v) {
  HalfFloats half;
  std::memcpy(&half, &v, sizeof half);
  return __builtin_convertvector(half, Doubles);
}
SHARDSCOPE_INLINE Doubles widen_high(Floats v) {
  HalfFloats half;
  std::memcpy(&half, reinterpret_cast<const char*>(&v) + sizeof half, sizeof half);
  return __builtin_convertvector(half, Doubles);
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA

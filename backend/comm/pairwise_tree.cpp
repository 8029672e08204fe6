#include "backend/comm/pairwise_tree.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "core/base/bfloat16.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// One register of T. Wider ones gain nothing where memory is the limit, and spill with four
/// sources.
template <class T>
struct Lanes {
  using Vector __attribute__((vector_size(16))) = T;
  static constexpr std::size_t count = 16 / sizeof(T);
};

/// One step of `combine` on a register or a single element. All loads come before the store: `out`
/// may be a source. Sources need not be aligned, so that values are copied as bytes.
template <class Value, class T, std::size_t n, class Sum>
void combine_at(const T* const (&sources)[n], std::size_t at, T* out, Sum sum) {
  Value values[n];
#pragma GCC unroll 4
  for (std::size_t s = 0; s < n; ++s) std::memcpy(&values[s], sources[s] + at, sizeof(Value));
  sum(values);
  std::memcpy(out + at, &values[0], sizeof(Value));
}

template <class T, std::size_t n, class Sum>
void combine(const T* const (&sources)[n], std::size_t count, T* out, Sum sum) {
  std::size_t i = 0;
  for (; i + Lanes<T>::count <= count; i += Lanes<T>::count) {
    combine_at<typename Lanes<T>::Vector>(sources, i, out, sum);
  }
  for (; i < count; ++i) combine_at<T>(sources, i, out, sum);
}

template <class T>
void sum_of_two(const T* a, const T* b, std::size_t count, T* out) {
  combine<T, 2>({a, b}, count, out, [](auto& v) { v[0] = v[0] + v[1]; });
}

constexpr std::size_t block_bytes = 2048;

template <class T>
void sum_block(std::span<const T* const> sources, std::size_t at, std::size_t count, T* out) {
  const auto source = [&](std::size_t s) { return sources[s] + at; };
  switch (sources.size()) {
    case 1:
      if (out != source(0)) std::memmove(out, source(0), count * sizeof(T));
      return;
    case 2:
      return sum_of_two(source(0), source(1), count, out);
    case 3:
      return combine<T, 3>({source(0), source(1), source(2)}, count, out,
                           [](auto& v) { v[0] = (v[0] + v[1]) + v[2]; });
    case 4:
      return combine<T, 4>({source(0), source(1), source(2), source(3)}, count, out,
                           [](auto& v) { v[0] = (v[0] + v[1]) + (v[2] + v[3]); });
    default:
      break;
  }
  alignas(64) T left[block_bytes / sizeof(T)];
  alignas(64) T right[block_bytes / sizeof(T)];
  const std::size_t half = pairwise_left_half(sources.size());
  sum_block<T>(sources.first(half), at, count, left);
  sum_block<T>(sources.subspan(half), at, count, right);
  sum_of_two<T>(left, right, count, out);
}

template <class T>
void sum_all(std::span<const std::byte* const> sources, std::span<std::byte> out) {
  // Spans of pointers to T over pointers to bytes: both are plain object pointers of one
  // representation.
  const std::span<const T* const> typed(reinterpret_cast<const T* const*>(sources.data()),
                                        sources.size());
  const std::size_t count = out.size() / sizeof(T);
  T* const to = reinterpret_cast<T*>(out.data());
  const std::size_t block = sources.size() <= 4 ? count : block_bytes / sizeof(T);
  for (std::size_t at = 0; at < count; at += block) {
    sum_block<T>(typed, at, std::min(block, count - at), to + at);
  }
}

// Four bfloat16 and what they widen to: -O2 makes no vectors of loops by itself.
using UpperHalves __attribute__((vector_size(8))) = std::uint16_t;
using Words __attribute__((vector_size(16))) = std::uint32_t;
constexpr std::size_t words = 4;

void widen(const Bfloat16* from, std::size_t count, float* to) {
  std::size_t i = 0;
  for (; i + words <= count; i += words) {
    UpperHalves halves;
    std::memcpy(&halves, from + i, sizeof halves);
    const Words bits = __builtin_convertvector(halves, Words) << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
  for (; i < count; ++i) {
    Bfloat16 value;
    std::memcpy(&value, from + i, sizeof value);
    to[i] = to_float(value);
  }
}

/// As `to_bfloat16`.
void round(const float* from, std::size_t count, std::byte* to) {
  std::size_t i = 0;
  for (; i + words <= count; i += words) {
    Words bits;
    std::memcpy(&bits, from + i, sizeof bits);
    const Words nearest = bits + 0x7FFF + (bits >> 16 & 1);
    const auto is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    const Words kept = is_nan ? bits | 0x400000 : nearest;
    const UpperHalves halves = __builtin_convertvector(kept >> 16, UpperHalves);
    std::memcpy(to + i * sizeof(Bfloat16), &halves, sizeof halves);
  }
  for (; i < count; ++i) {
    const Bfloat16 rounded = to_bfloat16(from[i]);
    std::memcpy(to + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

using Sources = std::span<const Bfloat16* const>;

/// The same tree over sources that are widened first; float32 is kept until all are added.
void sum_widened(Sources sources, std::size_t at, std::size_t count, float* out) {
  if (sources.size() == 1) return widen(sources[0] + at, count, out);
  alignas(64) float right[block_bytes / sizeof(float)];
  const std::size_t half = pairwise_left_half(sources.size());
  sum_widened(sources.first(half), at, count, out);
  sum_widened(sources.subspan(half), at, count, right);
  sum_of_two<float>(out, right, count, out);
}

void sum_bfloat16(std::span<const std::byte* const> sources, std::span<std::byte> out) {
  const Sources typed(reinterpret_cast<const Bfloat16* const*>(sources.data()), sources.size());
  const std::size_t count = out.size() / sizeof(Bfloat16);
  constexpr std::size_t block = block_bytes / sizeof(float);
  alignas(64) float sums[block];
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t some = std::min(block, count - at);
    sum_widened(typed, at, some, sums);
    round(sums, some, out.data() + at * sizeof(Bfloat16));
  }
}

}  // namespace

std::size_t pairwise_left_half(std::size_t sources) { return std::bit_floor(sources - 1); }

void pairwise_sum(Dtype dtype, std::span<const std::byte* const> sources,
                  std::span<std::byte> out) {
  switch (dtype) {
    case Dtype::float32:
      return sum_all<float>(sources, out);
    case Dtype::bfloat16:
      return sum_bfloat16(sources, out);
    case Dtype::float64:
      return sum_all<double>(sources, out);
    case Dtype::int64:
      return sum_all<std::uint64_t>(sources, out);
    default:
      throw Error({.where = "sum over ranks",
                   .what = fmt::format("{} cannot be summed", name_of(dtype)),
                   .way_out = "use bfloat16, float32, float64 or int64"});
  }
}

}  // namespace shardscope

#include <immintrin.h>

#include <cstdint>
#include <iterator>

#include "backend/checkpoint/crc32_folding.h"

namespace shardscope {
namespace {

#define SHARDSCOPE_FOLDS [[gnu::target("pclmul,sse4.1")]]

/// The paper's constants k1 to k4, bit-reflected: x^(n+32) and x^(n-32) mod P for a shift by n =
/// 512 and by n = 128 bits.
constexpr std::int64_t shift_512[] = {0x154442bd4, 0x1c6e41596};
constexpr std::int64_t shift_128[] = {0x1751997d0, 0x0ccaa009e};

SHARDSCOPE_FOLDS __m128i load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// What is congruent to `value` shifted by the distance of `powers`, plus `next`.
SHARDSCOPE_FOLDS __m128i fold(__m128i value, __m128i powers, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(value, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

}  // namespace

bool can_fold_crc32() {
  static const bool can = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return can;
}

SHARDSCOPE_FOLDS FoldedCrc32 fold_crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t lane = sizeof(__m128i);
  const std::byte* from = bytes.data();
  std::size_t left = bytes.size();
  // Four lanes hide the multiplier's latency.
  __m128i lanes[] = {load(from), load(from + lane), load(from + 2 * lane), load(from + 3 * lane)};
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(~before)));
  const __m128i by_512 = _mm_set_epi64x(shift_512[1], shift_512[0]);
  for (from += 4 * lane, left -= 4 * lane; left >= 4 * lane; from += 4 * lane, left -= 4 * lane)
    for (std::size_t i = 0; i < std::size(lanes); ++i)
      lanes[i] = fold(lanes[i], by_512, load(from + i * lane));
  const __m128i by_128 = _mm_set_epi64x(shift_128[1], shift_128[0]);
  __m128i all = lanes[0];
  for (std::size_t i = 1; i < std::size(lanes); ++i) all = fold(all, by_128, lanes[i]);
  for (; left >= lane; from += lane, left -= lane) all = fold(all, by_128, load(from));
  FoldedCrc32 folded{.remainder = {}, .consumed = bytes.size() - left};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(folded.remainder), all);
  return folded;
}

}  // namespace shardscope

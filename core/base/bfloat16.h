// The upper half of a float32 as a number of its own.
#pragma once

#include <bit>
#include <cstdint>

namespace shardscope {

struct Bfloat16 {
  std::uint16_t bits;
};

constexpr float to_float(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to the nearest, ties to even; NaN stays NaN, what is too large becomes infinite.
/// Example: 1 + 2^-8 lies half-way between 1 and 1 + 2^-7 and becomes 1.
constexpr Bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  constexpr std::uint32_t quiet = 0x40;
  if (value != value) return {static_cast<std::uint16_t>(bits >> 16 | quiet)};
  const std::uint32_t last_kept = bits >> 16 & 1;
  return {static_cast<std::uint16_t>((bits + 0x7FFF + last_kept) >> 16)};
}

}  // namespace shardscope

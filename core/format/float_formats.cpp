#include "core/format/float_formats.h"

#include <bit>
#include <cmath>

#include "core/base/bfloat16.h"

namespace shardscope {

float float_of_bfloat16(std::uint16_t bits) { return to_float(Bfloat16{bits}); }

float float_of_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1Fu;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0) {  // subnormal: fraction * 2^-24
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  constexpr std::uint32_t rebias = 127 - 15;
  const std::uint32_t wide_exponent = exponent == 0x1F ? 0xFFu : exponent + rebias;
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

}  // namespace shardscope

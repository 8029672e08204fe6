#include "core/format/float_formats.h"

#include <bit>
#include <cmath>
#include <cstring>

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

bool has_floats(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::bfloat16 || dtype == Dtype::float16 ||
         dtype == Dtype::float64;
}

void to_floats(Dtype dtype, const std::byte* from, std::span<float> out) {
  const auto converted = [&]<class Stored>(Stored stored, auto to_float) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
      out[i] = to_float(stored);
    }
  };
  switch (dtype) {
    case Dtype::bfloat16:
      return converted(std::uint16_t{}, float_of_bfloat16);
    case Dtype::float16:
      return converted(std::uint16_t{}, float_of_float16);
    case Dtype::float64:
      return converted(double{}, [](double value) { return static_cast<float>(value); });
    default:
      if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
  }
}

}  // namespace shardscope

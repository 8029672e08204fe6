// 16-bit floating-point formats to float.
#pragma once

#include <cstdint>

namespace shardscope {

float float_of_bfloat16(std::uint16_t bits);
/// IEEE 754 binary16, subnormals, infinities and NaN included.
float float_of_float16(std::uint16_t bits);

}  // namespace shardscope

// Floating-point formats to float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/dtype.h"

namespace shardscope {

float float_of_bfloat16(std::uint16_t bits);
/// IEEE 754 binary16, subnormals, infinities and NaN included.
float float_of_float16(std::uint16_t bits);

/// Whether to_floats takes numbers of this type: float32, bfloat16, float16, float64.
bool has_floats(Dtype dtype);
/// out.size() numbers of such a type, little-endian, packed from `from` on; no alignment is needed.
void to_floats(Dtype dtype, const std::byte* from, std::span<float> out);

}  // namespace shardscope

// Element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/quantities.h"

namespace shardscope {

enum class Dtype : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
  uint64
};

/// Size of one element.
Bytes size_of(Dtype dtype);
/// "float32", "bfloat16", "bool": the name in JSON and in PyTorch.
std::string_view name_of(Dtype dtype);
/// "F32", "BF16", "BOOL": the name in safetensors headers.
std::string_view safetensors_name_of(Dtype dtype);
/// Reads either spelling ("float32", "torch.float32", "F32"); throws Error naming `where`.
Dtype parse_dtype(std::string_view text, std::string_view where);

inline Bytes bytes_of(std::int64_t elements, Dtype dtype) { return size_of(dtype) * elements; }

}  // namespace shardscope

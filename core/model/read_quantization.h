// transformers' quantization_config, and the same in one option.
#pragma once

#include <optional>
#include <string_view>

#include "core/format/json_reader.h"
#include "core/model/quantization.h"

namespace shardscope {

/// The quantization_config of a config.json; none where there is none. Error with file, line and
/// key for a method that is not modelled.
std::optional<Quantization> read_quantization(const JsonValue& config);

/// --quantization: "nf4", "fp4" or "int8", then of 4 bits "double", "compute=DTYPE" and
/// "storage=DTYPE": "nf4,double,storage=bfloat16". Computes in bfloat16 unless it is told. Error
/// naming `where`.
Quantization parse_quantization(std::string_view text, std::string_view where);

}  // namespace shardscope

// A kernel's description as JSON: the fields that its cost depends on.
#pragma once

#include <string>

#include "core/format/json_reader.h"
#include "core/schedule/kernel.h"

namespace shardscope {

/// {"kind": "linear_forward", "rows": 2048, "in": 384, "out": 1152, "has_bias": true}: fields of
/// `cost_key` that differ from their default.
std::string kernel_json(const Kernel& kernel);

/// Reads it back; unknown keys and kinds, and sizes that are negative or over 2^40, throw Error. A
/// key that only other kinds have is checked and left out.
Kernel read_kernel(const JsonValue& value);

}  // namespace shardscope

// Python's int() and float() of a text.
#pragma once

#include <optional>
#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope {

/// int(text, base): blanks around it, a sign, single underscores between digits. Raises ValueError.
/// Base 8 and 16 take their prefix ("0o17", "0x1F").
ConfigValue python_integer(std::string_view text, int base = 10);
/// float(text): also "inf", "infinity" and "nan" in any case. Raises ValueError.
double python_float_of(std::string_view text);

}  // namespace shardscope

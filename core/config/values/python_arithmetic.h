// Arithmetic that mixes Python's int and float, and the words that stand for truth.
#pragma once

#include <string_view>

#include "core/config/values/config_value.h"

namespace shardscope {

/// a * b of two numbers; Refusal TypeError for anything else. Products of ints beyond 64 bits are
/// an Error.
ConfigValue multiplied(const ConfigValue& a, const ConfigValue& b);
/// a // b; Refusal ZeroDivisionError, or TypeError for anything but numbers.
ConfigValue floor_divided(const ConfigValue& a, const ConfigValue& b);
/// a / b, a float.
ConfigValue divided(const ConfigValue& a, const ConfigValue& b);
/// a > b; Refusal TypeError for anything but numbers.
bool is_greater(const ConfigValue& a, const ConfigValue& b);

/// accelerate.utils.str_to_bool: y, yes, t, true, on, 1 and their opposites in any case; Refusal
/// ValueError for other text. Source: accelerate 1.15.0 utils/environment.py.
bool str_to_bool(std::string_view text);

}  // namespace shardscope

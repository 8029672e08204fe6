// What Python does with values of the wrong type where accelerate compares, divides and lowers
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/config/values/config_value.h"
#include "core/config/values/environment.h"

namespace shardscope::accelerate {

/// The number in `value < n`; TypeError where Python has no such comparison. `name` is for
/// messages.
double comparable(const ConfigValue& value, std::string_view name);
/// str(dividend // divisor). TypeError, ZeroDivisionError.
std::string floor_divided(const ConfigValue& dividend, const ConfigValue& divisor,
                          std::string_view name);
/// value.lower(), value.upper(); AttributeError where it is no text.
std::string lowered(const ConfigValue& value, std::string_view name);
std::string uppered(const ConfigValue& value, std::string_view name);
/// int(value) of a number or a text.
std::int64_t integer_of(const ConfigValue& value, std::string_view name);
/// The first of the variables whose integer is not negative.
/// Source: accelerate 1.15.0 utils/environment.py, get_int_from_env.
std::int64_t integer_variable(const Environment& shell,
                              std::initializer_list<std::string_view> names,
                              std::int64_t otherwise);

}  // namespace shardscope::accelerate

#include "core/config/accelerate/python_rules.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/refusal.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

Refusal wrong_type(const char* type, const ConfigValue& value, std::string_view name,
                   std::string_view wanted) {
  return {type,
          {.where = {},
           .what = fmt::format("{} must be {}, got {} ({})", name, wanted, value.repr(),
                               value.type_name()),
           .way_out = {}},
          value.line()};
}

}  // namespace

double comparable(const ConfigValue& value, std::string_view name) {
  if (!value.is_number()) throw wrong_type("TypeError", value, name, "a number");
  return value.number();
}

std::string floor_divided(const ConfigValue& dividend, const ConfigValue& divisor,
                          std::string_view name) {
  const double top = comparable(dividend, name);
  const double bottom = comparable(divisor, "num_machines");
  if (bottom == 0) throw wrong_type("ZeroDivisionError", divisor, "num_machines", "at least 1");
  const double result = std::floor(top / bottom);
  const bool whole = !dividend.is_double() && !divisor.is_double();
  return whole ? fmt::format("{:.0f}", result) : python_float(result);
}

std::string lowered(const ConfigValue& value, std::string_view name) {
  if (!value.is_string()) throw wrong_type("AttributeError", value, name, "a text");
  return lower_of(value.string());
}

std::string uppered(const ConfigValue& value, std::string_view name) {
  if (!value.is_string()) throw wrong_type("AttributeError", value, name, "a text");
  return upper_of(value.string());
}

std::int64_t integer_of(const ConfigValue& value, std::string_view name) {
  if (value.is_string()) {
    const ConfigValue read = python_integer(value.string());
    return read.is_integer() ? read.integer() : 0;
  }
  if (!value.is_number()) throw wrong_type("TypeError", value, name, "a number");
  const double number = value.number();
  if (!(std::abs(number) < 9e15)) throw wrong_type("OverflowError", value, name, "a sane number");
  return static_cast<std::int64_t>(number);
}

std::int64_t integer_variable(const Environment& shell,
                              std::initializer_list<std::string_view> names,
                              std::int64_t otherwise) {
  for (const std::string_view name : names) {
    const std::int64_t value = integer_of(variable(shell, name, "-1"), name);
    if (value >= 0) return value;
  }
  return otherwise;
}

}  // namespace shardscope::accelerate

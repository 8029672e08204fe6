#include "core/config/values/python_arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "core/base/refusal.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

void require_numbers(std::string_view operation, const ConfigValue& a, const ConfigValue& b) {
  if (a.is_number() && b.is_number()) return;
  throw Refusal("TypeError", fmt::format("{} {} {} is not defined", a.repr(), operation, b.repr()));
}

bool is_int(const ConfigValue& value) { return value.is_integer() || value.is_boolean(); }

/// float.__floordiv__: by the remainder, so that a quotient that rounds up to a whole number does
/// not count as that number. Source: CPython 3.11 Objects/floatobject.c, _float_div_mod.
double floor_divided_floats(double a, double b) {
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Error beyond_64_bits() {
  return Error(
      {.where = {}, .what = "a product goes beyond 64 bits", .way_out = "give smaller numbers"});
}

}  // namespace

ConfigValue multiplied(const ConfigValue& a, const ConfigValue& b) {
  require_numbers("*", a, b);
  if (!is_int(a) || !is_int(b)) return a.number() * b.number();
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a.integer(), b.integer(), &product)) throw beyond_64_bits();
  return product;
}

ConfigValue floor_divided(const ConfigValue& a, const ConfigValue& b) {
  require_numbers("//", a, b);
  if (b.number() == 0) throw Refusal("ZeroDivisionError", "a division by zero");
  if (!is_int(a) || !is_int(b)) return floor_divided_floats(a.number(), b.number());
  const std::int64_t dividend = a.integer();
  const std::int64_t divisor = b.integer();
  if (divisor == -1 && dividend == std::numeric_limits<std::int64_t>::min()) throw beyond_64_bits();
  const bool inexact_negative = dividend % divisor != 0 && (dividend < 0) != (divisor < 0);
  return dividend / divisor - (inexact_negative ? 1 : 0);
}

ConfigValue divided(const ConfigValue& a, const ConfigValue& b) {
  require_numbers("/", a, b);
  if (b.number() == 0) throw Refusal("ZeroDivisionError", "a division by zero");
  return a.number() / b.number();
}

bool is_greater(const ConfigValue& a, const ConfigValue& b) {
  require_numbers(">", a, b);
  if (is_int(a) && is_int(b)) return a.integer() > b.integer();
  return a.number() > b.number();
}

bool str_to_bool(std::string_view text) {
  constexpr std::array<std::string_view, 6> yes{"y", "yes", "t", "true", "on", "1"};
  constexpr std::array<std::string_view, 6> no{"n", "no", "f", "false", "off", "0"};
  const std::string word = lower_of(text);
  if (std::find(yes.begin(), yes.end(), word) != yes.end()) return true;
  if (std::find(no.begin(), no.end(), word) != no.end()) return false;
  throw Refusal("ValueError", {.where = {},
                               .what = fmt::format("\"{}\" is neither true nor false", word),
                               .way_out = "write true or false"});
}

}  // namespace shardscope

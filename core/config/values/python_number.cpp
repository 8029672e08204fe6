#include "core/config/values/python_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/refusal.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

constexpr std::size_t max_digits = 4300;  // sys.get_int_max_str_digits

/// `digits` without its underscores, which may only stand between digits; false: not so.
bool take_underscores(std::string& digits) {
  if (digits.empty() || digits.front() == '_' || digits.back() == '_' ||
      digits.find("__") != std::string::npos)
    return false;
  std::erase(digits, '_');
  return true;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  return 99;
}

/// Decimal digits of a number of any size in another base.
std::string decimal_of(std::string_view digits, int base) {
  std::vector<std::uint32_t> parts{0};  // base 10^9, lowest first
  constexpr std::uint32_t limit = 1'000'000'000;
  for (const char c : digits) {
    auto carry = static_cast<std::uint64_t>(digit_value(c));
    for (std::uint32_t& part : parts) {
      carry += static_cast<std::uint64_t>(part) * static_cast<std::uint64_t>(base);
      part = static_cast<std::uint32_t>(carry % limit);
      carry /= limit;
    }
    if (carry > 0) parts.push_back(static_cast<std::uint32_t>(carry));
  }
  std::string text = fmt::format("{}", parts.back());
  for (std::size_t i = parts.size() - 1; i-- > 0;) text += fmt::format("{:09}", parts[i]);
  return text;
}

}  // namespace

ConfigValue python_integer(std::string_view text, int base) {
  const auto wrong = [&] {
    return Refusal("ValueError", fmt::format("invalid literal for int() with base {}: {}", base,
                                             python_quoted(text.substr(0, 60))));
  };
  std::string digits = lower_of(stripped(text));
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && digits.starts_with(prefix)) {
    digits.erase(0, 2);
    if (digits.starts_with('_')) digits.erase(0, 1);
  }
  if (!take_underscores(digits) || digits.size() > max_digits ||
      !std::all_of(digits.begin(), digits.end(), [&](char c) { return digit_value(c) < base; }))
    throw wrong();
  std::int64_t value = 0;
  const std::string with_sign = (negative ? "-" : "") + digits;
  const auto [end, error] =
      std::from_chars(with_sign.data(), with_sign.data() + with_sign.size(), value, base);
  if (error == std::errc()) return value;
  return BigInteger{(negative ? "-" : "") + decimal_of(digits, base)};
}

double python_float_of(std::string_view text) {
  const auto wrong = [&] {
    return Refusal("ValueError", fmt::format("could not convert string to float: {}",
                                             python_quoted(text.substr(0, 60))));
  };
  std::string bare = lower_of(stripped(text));
  const bool negative = bare.starts_with('-');
  if (negative || bare.starts_with('+')) bare.erase(0, 1);
  const auto with_sign = [&](double value) { return negative ? -value : value; };
  if (bare == "inf" || bare == "infinity") return with_sign(HUGE_VAL);
  if (bare == "nan") return std::nan("");
  for (std::size_t i = 0; i < bare.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < bare.size() && bare[at] >= '0' && bare[at] <= '9';
    };
    if (bare[i] == '_' && (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))) throw wrong();
    if (bare[i] != '_' && bare[i] != '.' && bare[i] != 'e' && bare[i] != '+' && bare[i] != '-' &&
        !is_digit(i))
      throw wrong();
  }
  std::erase(bare, '_');
  double value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  if (end != bare.data() + bare.size() || bare.empty() || bare.front() == '-') throw wrong();
  if (error == std::errc::result_out_of_range)
    value = bare.find("e-") != std::string::npos ? 0 : HUGE_VAL;
  else if (error != std::errc())
    throw wrong();
  return with_sign(value);
}

}  // namespace shardscope

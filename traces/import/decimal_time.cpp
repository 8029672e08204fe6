#include "traces/import/decimal_time.h"

#include <charconv>
#include <string>

namespace shardscope {
namespace {

constexpr std::int64_t max_ns = (std::int64_t{1} << 62) - 1;  // two of them add up
constexpr int max_digits = 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A number as its digits and where the point stands between them.
struct Digits {
  bool is_negative = false;
  std::string text;     ///< at most max_digits, without leading zeros
  int point = 0;        ///< digits before it
  bool is_cut = false;  ///< digits other than zero were left out at the end
};

void add_digit(Digits& digits, char c, bool is_fraction) {
  if (!is_fraction) ++digits.point;
  if (digits.text.empty() && c == '0') {
    --digits.point;
  } else if (digits.text.size() < max_digits) {
    digits.text += c;
  } else {
    digits.is_cut |= c != '0';
  }
}

std::optional<Digits> digits_of(std::string_view text) {
  Digits digits;
  digits.is_negative = text.starts_with('-');
  if (digits.is_negative) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  bool is_fraction = false;
  while (!text.empty() && (is_digit(text.front()) || (text.front() == '.' && !is_fraction))) {
    if (text.front() == '.') {
      is_fraction = true;
    } else {
      add_digit(digits, text.front(), is_fraction);
    }
    text.remove_prefix(1);
  }
  if (text.empty()) return digits;
  if (text.front() != 'e' && text.front() != 'E') return std::nullopt;
  text.remove_prefix(text.substr(1).starts_with('+') ? 2 : 1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  const bool is_exponent =
      error == std::errc() && end == text.data() + text.size() && !text.empty();
  if (!is_exponent || exponent < -1000 || exponent > 1000) return std::nullopt;
  digits.point += exponent;
  return digits;
}

/// Any decimal number, as far as it goes.
std::optional<DecimalTime> general(std::string_view text) {
  const auto digits = digits_of(text);
  if (!digits) return std::nullopt;
  const int whole = digits->point + 3;  // digits before the point, in ns
  const int count = static_cast<int>(digits->text.size());
  std::int64_t ns = 0;
  for (int i = 0; i < whole && count > 0; ++i) {
    if (ns >= max_ns / 10) return std::nullopt;
    ns = ns * 10 + (i < count ? digits->text[static_cast<std::size_t>(i)] - '0' : 0);
  }
  const bool has_half = whole >= 0 && whole < count;
  const char next = has_half ? digits->text[static_cast<std::size_t>(whole)] : '0';
  bool is_more = digits->is_cut || (whole < 0 && count > 0);
  for (int i = whole + 1; has_half && i < count; ++i)
    is_more |= digits->text[static_cast<std::size_t>(i)] != '0';
  const bool is_up = next > '5' || (next == '5' && (is_more || ns % 2 == 1));
  ns += is_up ? 1 : 0;
  return DecimalTime{digits->is_negative ? -ns : ns, next != '0' || is_more};
}

}  // namespace

std::optional<DecimalTime> microseconds_to_ns(std::string_view text) {
  // At most 15 digits and three decimals: nearly all there is.
  std::int64_t value = 0;
  std::size_t i = 0;
  while (i < text.size() && i < 15 && is_digit(text[i])) value = value * 10 + (text[i++] - '0');
  if (i == 0) return general(text);
  std::int64_t ns = value * 1000;
  if (i == text.size()) return DecimalTime{ns, false};
  if (text[i] != '.') return general(text);
  const std::string_view decimals = text.substr(i + 1);
  if (decimals.empty() || decimals.size() > 3) return general(text);
  std::int64_t place = 100;
  for (const char c : decimals) {
    if (!is_digit(c)) return general(text);
    ns += (c - '0') * place;
    place /= 10;
  }
  return ns <= max_ns ? std::optional(DecimalTime{ns, false}) : std::nullopt;
}

}  // namespace shardscope

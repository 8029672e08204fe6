#include "core/config/yaml/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/refusal.h"
#include "core/config/values/python_number.h"
#include "core/config/yaml/document.h"
#include "core/config/yaml/patterns.h"
#include "core/format/python_text.h"

namespace shardscope::yaml {
namespace {

std::string without_bars(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  return result;
}

/// Takes a sign off; true: it was a minus.
bool take_sign(std::string_view& text, std::string_view type) {
  if (text.empty()) throw Refusal("IndexError", fmt::format("!!{} of an empty text", type));
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  return negative;
}

std::string signed_text(bool negative, std::string_view digits) {
  return (negative ? "-" : "") + std::string(digits);
}

/// 1:30 is 90. Beyond 64 bits the value is no number that any configuration means.
ConfigValue sixtieths_integer(std::string_view text, bool negative) {
  double value = 0;
  while (true) {
    const std::size_t colon = text.find(':');
    value = value * 60 + python_integer(text.substr(0, colon)).number();
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (value > 9e15) throw Refusal("OverflowError", "a number with ':' beyond 2^53");
  return static_cast<std::int64_t>(negative ? -value : value);
}

ConfigValue integer_value(const std::string& text) {
  const std::string bare = without_bars(text);
  std::string_view rest = bare;
  const bool negative = take_sign(rest, "int");
  if (rest == "0") return 0;
  if (rest.starts_with("0b")) return python_integer(signed_text(negative, rest.substr(2)), 2);
  if (rest.starts_with("0x")) return python_integer(signed_text(negative, rest.substr(2)), 16);
  if (rest.empty()) throw Refusal("IndexError", "!!int of a sign alone");
  if (rest.front() == '0') return python_integer(signed_text(negative, rest), 8);
  if (rest.find(':') != std::string_view::npos) return sixtieths_integer(rest, negative);
  return python_integer(signed_text(negative, rest));
}

ConfigValue float_value(const std::string& text) {
  const std::string bare = lower_of(without_bars(text));
  std::string_view rest = bare;
  const bool negative = take_sign(rest, "float");
  double value = 0;
  if (rest == ".inf") {
    value = HUGE_VAL;
  } else if (rest == ".nan") {
    return std::nan("");
  } else if (rest.find(':') != std::string_view::npos) {
    for (double scale = 1; !rest.empty() || scale == 1;) {
      const std::size_t colon = rest.rfind(':');
      const bool last = colon == std::string_view::npos;
      value += scale * python_float_of(rest.substr(last ? 0 : colon + 1));
      if (last) break;
      rest = rest.substr(0, colon);
      scale *= 60;
    }
  } else {
    value = python_float_of(rest);
  }
  return negative ? -value : value;
}

int number_of(std::string_view digits) {
  int value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return value;
}

int days_in(int year, int month) {
  constexpr std::array<int, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return days[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

/// The offset from UTC as str(datetime) writes it, and as repr does.
std::pair<std::string, std::string> zone_texts(const Timestamp& parts) {
  if (parts.zone.empty()) return {};
  if (parts.zone == "Z") return {"+00:00", ", tzinfo=datetime.timezone.utc"};
  const int hours = number_of(parts.zone_hour);
  const int minutes = number_of(parts.zone_minute);
  if (hours >= 24 || minutes >= 60) throw Refusal("ValueError", "an offset of a day or more");
  const bool negative = parts.zone == "-" && hours + minutes > 0;
  const int seconds = (hours * 60 + minutes) * 60;
  const std::string delta = negative ? fmt::format("days=-1, seconds={}", 86400 - seconds)
                                     : fmt::format("seconds={}", seconds);
  if (seconds == 0) return {"+00:00", ", tzinfo=datetime.timezone.utc"};
  return {fmt::format("{}{:02}:{:02}", negative ? '-' : '+', hours, minutes),
          fmt::format(", tzinfo=datetime.timezone(datetime.timedelta({}))", delta)};
}

ConfigValue timestamp_value(const std::string& text) {
  Timestamp parts;
  if (!match_timestamp(text, parts))
    throw Refusal("AttributeError", fmt::format("{} is no date", python_quoted(text)));
  const int year = number_of(parts.year), month = number_of(parts.month),
            day = number_of(parts.day);
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
    throw Refusal("ValueError", fmt::format("{} is no day of the calendar", python_quoted(text)));
  const std::string date = fmt::format("{:04}-{:02}-{:02}", year, month, day);
  if (parts.hour.empty())
    return PythonObject{"date", date, fmt::format("datetime.date({}, {}, {})", year, month, day)};
  const int hour = number_of(parts.hour), minute = number_of(parts.minute),
            second = number_of(parts.second);
  if (hour > 23 || minute > 59 || second > 59)
    throw Refusal("ValueError", fmt::format("{} is no time of day", python_quoted(text)));
  std::string fraction(parts.fraction.substr(0, 6));
  if (!fraction.empty()) fraction.resize(6, '0');
  const int micro = number_of(fraction);
  const auto [zone, zone_repr] = zone_texts(parts);
  const std::string tail = micro > 0    ? fmt::format(", {}, {}", second, micro)
                           : second > 0 ? fmt::format(", {}", second)
                                        : "";
  return PythonObject{"datetime",
                      fmt::format("{} {:02}:{:02}:{:02}{}{}", date, hour, minute, second,
                                  micro > 0 ? "." + fraction : "", zone),
                      fmt::format("datetime.datetime({}, {}, {}, {}, {}{}{})", year, month, day,
                                  hour, minute, tail, zone_repr)};
}

std::string bytes_repr(std::string_view bytes) {
  const bool doubled = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char quote = doubled ? '"' : '\'';
  std::string repr{'b', quote};
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view blanks = "\t\n\r", letters = "tnr";
    if (c == quote || c == '\\')
      repr += '\\', repr += c;
    else if (const std::size_t at = blanks.find(c); at != blanks.npos)
      repr += '\\', repr += letters[at];
    else
      repr += byte >= 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return repr + quote;
}

/// base64.decodebytes: skips what is no letter of the alphabet, ends at the padding.
ConfigValue binary_value(const std::string& text) {
  constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (std::any_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; }))
    throw Refusal("ConstructorError", "!!binary holds a character that is not ASCII");
  std::uint32_t bits = 0;
  std::size_t in_group = 0, padding = 0;
  std::string bytes;
  for (const char c : text) {
    if (c == '=' && in_group >= 2 && in_group + ++padding >= 4) {
      in_group = 0;
      break;
    }
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) continue;
    padding = 0;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    const std::size_t surplus = 6 - 2 * in_group;  // bits of the next byte already there
    if (in_group > 0) bytes += static_cast<char>(bits >> surplus & 0xFF);
    in_group = (in_group + 1) % 4;
  }
  if (in_group != 0) throw Refusal("ConstructorError", "!!binary is no base64");
  const std::string repr = bytes_repr(bytes);
  return PythonObject{"bytes", repr, repr};
}

ConfigValue bool_value(const std::string& text) {
  const std::string word = lower_of(text);
  if (!is_bool(word)) throw Refusal("KeyError", fmt::format("{} is no bool", python_quoted(text)));
  return word == "yes" || word == "true" || word == "on";
}

}  // namespace

std::string resolved_tag(std::string_view text) {
  const auto named = [](std::string_view name) { return std::string(standard_tag).append(name); };
  if (is_bool(text)) return named("bool");
  if (is_float(text)) return named("float");
  if (is_integer(text)) return named("int");
  if (text == "<<") return named("merge");
  if (is_null(text)) return named("null");
  if (is_timestamp(text)) return named("timestamp");
  return named(text == "=" ? "value" : "str");
}

ConfigValue scalar_value(std::string_view tag, const std::string& text) {
  if (tag == "null") return {};
  if (tag == "bool") return bool_value(text);
  if (tag == "int") return integer_value(text);
  if (tag == "float") return float_value(text);
  if (tag == "timestamp") return timestamp_value(text);
  if (tag == "binary") return binary_value(text);
  return text;
}

}  // namespace shardscope::yaml

#include "core/config/yaml/patterns.h"

#include <algorithm>
#include <array>

namespace shardscope::yaml {
namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::string_view digits_and_bars = "0123456789_";

/// A cursor that takes characters of given sets.
struct Cursor {
  std::string_view rest;

  bool at_end() const { return rest.empty(); }
  bool next_in(std::string_view set) const {
    return !rest.empty() && set.find(rest.front()) != std::string_view::npos;
  }
  bool take(char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  }
  bool take_one(std::string_view set) {
    if (!next_in(set)) return false;
    rest.remove_prefix(1);
    return true;
  }
  bool take_text(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
  std::string_view take_all(std::string_view set) {
    const std::size_t end = std::min(rest.find_first_not_of(set), rest.size());
    const std::string_view taken = rest.substr(0, end);
    rest.remove_prefix(end);
    return taken;
  }
  /// From `least` to `most` digits, as many as there are; empty: fewer.
  std::string_view take_digits(std::size_t least, std::size_t most) {
    std::size_t count = 0;
    while (count < most && count < rest.size() &&
           digits.find(rest[count]) != std::string_view::npos)
      ++count;
    if (count < least) return {};
    const std::string_view taken = rest.substr(0, count);
    rest.remove_prefix(count);
    return taken;
  }
};

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// (:[0-5]?[0-9])+
bool take_sixtieths(Cursor& cursor) {
  bool any = false;
  while (cursor.take(':')) {
    const std::string_view part = cursor.take_digits(1, 2);
    if (part.empty() || (part.size() == 2 && part[0] > '5')) return false;
    any = true;
  }
  return any;
}

/// ([eE][-+][0-9]+)?
bool take_exponent(Cursor& cursor) {
  if (!cursor.take_one("eE")) return true;
  return cursor.take_one("+-") && !cursor.take_all(digits).empty();
}

bool is_special_float(std::string_view text) {
  constexpr std::array<std::string_view, 3> not_numbers{".nan", ".NaN", ".NAN"};
  constexpr std::array<std::string_view, 3> infinities{".inf", ".Inf", ".INF"};
  if (is_one_of(text, not_numbers)) return true;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return is_one_of(text, infinities);
}

bool take_time(Cursor& cursor, Timestamp& parts) {
  parts.hour = cursor.take_digits(1, 2);
  if (parts.hour.empty() || !cursor.take(':')) return false;
  parts.minute = cursor.take_digits(2, 2);
  if (parts.minute.empty() || !cursor.take(':')) return false;
  parts.second = cursor.take_digits(2, 2);
  if (parts.second.empty()) return false;
  if (cursor.take('.')) parts.fraction = cursor.take_all(digits);
  return true;
}

bool take_zone(Cursor& cursor, Timestamp& parts) {
  cursor.take_all(" \t");
  parts.zone = cursor.rest.substr(0, 1);
  if (cursor.take('Z')) return true;
  if (!cursor.take_one("+-")) return false;
  parts.zone_hour = cursor.take_digits(1, 2);
  if (parts.zone_hour.empty()) return false;
  if (!cursor.take(':')) return true;
  parts.zone_minute = cursor.take_digits(2, 2);
  return !parts.zone_minute.empty();
}

}  // namespace

bool is_bool(std::string_view text) {
  constexpr std::array<std::string_view, 18> words{
      "yes",   "Yes",   "YES",   "no", "No", "NO", "true", "True", "TRUE",
      "false", "False", "FALSE", "on", "On", "ON", "off",  "Off",  "OFF"};
  return is_one_of(text, words);
}

bool is_null(std::string_view text) {
  constexpr std::array<std::string_view, 5> words{"~", "null", "Null", "NULL", ""};
  return is_one_of(text, words);
}

bool is_integer(std::string_view text) {
  Cursor cursor{text};
  cursor.take_one("+-");
  if (cursor.take_text("0b")) return !cursor.take_all("01_").empty() && cursor.at_end();
  if (cursor.take_text("0x"))
    return !cursor.take_all("0123456789abcdefABCDEF_").empty() && cursor.at_end();
  if (cursor.take('0')) return cursor.take_all("01234567_"), cursor.at_end();
  if (!cursor.next_in(digits)) return false;
  cursor.take_all(digits_and_bars);
  return cursor.at_end() || (take_sixtieths(cursor) && cursor.at_end());
}

bool is_float(std::string_view text) {
  if (is_special_float(text)) return true;
  Cursor cursor{text};
  if (cursor.take('.')) {
    if (!cursor.next_in(digits)) return false;
    cursor.take_all(digits_and_bars);
    return take_exponent(cursor) && cursor.at_end();
  }
  cursor.take_one("+-");
  if (!cursor.next_in(digits)) return false;
  cursor.take_all(digits_and_bars);
  if (cursor.take('.')) {
    cursor.take_all(digits_and_bars);
    return take_exponent(cursor) && cursor.at_end();
  }
  if (!take_sixtieths(cursor) || !cursor.take('.')) return false;
  cursor.take_all(digits_and_bars);
  return cursor.at_end();
}

bool match_timestamp(std::string_view text, Timestamp& parts) {
  Cursor cursor{text};
  parts.year = cursor.take_digits(4, 4);
  if (parts.year.empty() || !cursor.take('-')) return false;
  parts.month = cursor.take_digits(1, 2);
  if (parts.month.empty() || !cursor.take('-')) return false;
  parts.day = cursor.take_digits(1, 2);
  if (parts.day.empty()) return false;
  if (cursor.at_end()) return true;
  if (!cursor.take_one("Tt") && cursor.take_all(" \t").empty()) return false;
  if (!take_time(cursor, parts)) return false;
  if (cursor.at_end()) return true;
  return take_zone(cursor, parts) && cursor.at_end();
}

bool is_timestamp(std::string_view text) {
  Timestamp parts;
  if (!match_timestamp(text, parts)) return false;
  return !parts.hour.empty() || (parts.month.size() == 2 && parts.day.size() == 2);
}

}  // namespace shardscope::yaml

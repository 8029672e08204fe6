#include "core/config/deepspeed/pydantic_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/base/refusal.h"
#include "core/base/utf8.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

/// A field that is being read, for its coercion and its complaint.
struct Reading {
  const ModelField& field;
  const ConfigValue& value;
  std::string_view key;

  [[noreturn]] void refuse(std::string expected, std::string way_out = {}) const {
    const std::string line = value.line() > 0 ? fmt::format("line {}: ", value.line()) : "";
    throw Refusal("ValidationError",
                  {.where = line + std::string(key),
                   .what = fmt::format("expected {}, got {}", expected, shown(value.repr())),
                   .way_out = std::move(way_out)});
  }
};

ConfigValue boolean_of(const Reading& r) {
  constexpr std::array<std::string_view, 6> yes{"1", "on", "t", "true", "y", "yes"};
  constexpr std::array<std::string_view, 6> no{"0", "off", "f", "false", "n", "no"};
  if (r.value.is_boolean()) return r.value;
  if (r.value == ConfigValue(0)) return false;
  if (r.value == ConfigValue(1)) return true;
  if (r.value.is_string()) {
    const std::string word = lower_of(r.value.string());
    if (std::find(yes.begin(), yes.end(), word) != yes.end()) return true;
    if (std::find(no.begin(), no.end(), word) != no.end()) return false;
  }
  r.refuse("true or false");
}

/// "5.00" is 5: a fraction of zeros is dropped before the digits are read.
std::string_view without_zero_fraction(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos || point == 0 || point + 1 == text.size()) return text;
  const bool zeros = text.find_first_not_of('0', point + 1) == std::string_view::npos;
  return zeros ? text.substr(0, point) : text;
}

ConfigValue integer_of_text(const Reading& r) {
  try {
    return python_integer(without_zero_fraction(stripped(r.value.string())));
  } catch (const Refusal&) {
  }
  r.refuse("a whole number", "write it without quotes, for example 500000000 or 5e8");
}

ConfigValue integer_of_float(const Reading& r) {
  const double number = r.value.number();
  // pydantic takes floats up to the range of 64 bits.
  if (!std::isfinite(number) || std::trunc(number) != number || std::abs(number) >= 0x1p63)
    r.refuse("a whole number");
  return static_cast<std::int64_t>(number);
}

ConfigValue integer_of(const Reading& r) {
  if (r.value.is_integer() || r.value.big_integer() != nullptr) return r.value;
  if (r.value.is_boolean()) return r.value.integer();
  if (r.value.is_double()) return integer_of_float(r);
  if (r.value.is_string()) return integer_of_text(r);
  r.refuse("a whole number");
}

ConfigValue number_of(const Reading& r) {
  if (r.value.is_number()) return r.value.number();
  if (r.value.is_string()) {
    try {
      return python_float_of(r.value.string());
    } catch (const Refusal&) {
    }
  }
  r.refuse("a number");
}

/// str(pathlib.PurePosixPath(text)): single slashes, no ".", none at the end.
std::string path_of(std::string_view text) {
  const std::size_t slashes = std::min(text.find_first_not_of('/'), text.size());
  // Two slashes at the start are a root of their own in POSIX, three or more are one.
  std::string path = slashes == 0 ? "" : slashes == 2 ? "//" : "/";
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('/'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty() || part == ".") continue;
    if (!first) path += '/';
    path += part;
    first = false;
  }
  return path.empty() ? "." : path;
}

bool is_word_of(const ModelField& field, const ConfigValue& value) {
  return value.is_string() &&
         std::find(field.words.begin(), field.words.end(), value.string()) != field.words.end();
}

ConfigValue word_of(const Reading& r) {
  if (is_word_of(r.field, r.value)) return r.value;
  r.refuse(fmt::format("one of {}", fmt::join(r.field.words, ", ")));
}

/// An enum of ints: 3, 3.0, "3", true for 1.
ConfigValue choice_of(const Reading& r) {
  const auto last = static_cast<std::int64_t>(*r.field.limits.le);
  const std::string expected = fmt::format("one of 0 to {}", last);
  try {
    ConfigValue whole = integer_of(r);
    if (whole.is_integer() && whole.integer() >= 0 && whole.integer() <= last) return whole;
  } catch (const Refusal&) {
  }
  r.refuse(expected);
}

ConfigValue list_of(const Reading& r) {
  if (!r.value.is_list()) r.refuse("a list");
  for (const ConfigValue& element : r.value.elements()) {
    if (r.field.kind == FieldKind::text_list && !element.is_string()) r.refuse("a list of texts");
    if (r.field.kind == FieldKind::word_list && !is_word_of(r.field, element))
      r.refuse(fmt::format("a list of {}", fmt::join(r.field.words, ", ")));
  }
  return r.value;
}

ConfigValue by_kind(const Reading& r) {
  switch (r.field.kind) {
    case FieldKind::boolean:
      return boolean_of(r);
    case FieldKind::integer:
      return integer_of(r);
    case FieldKind::number:
      return number_of(r);
    case FieldKind::text:
      if (!r.value.is_string()) r.refuse("a text");
      return r.value;
    case FieldKind::path:
      if (!r.value.is_string()) r.refuse("a path");
      return path_of(r.value.string());
    case FieldKind::word:
      return word_of(r);
    case FieldKind::whole_choice:
      return choice_of(r);
    case FieldKind::text_or_integer:
      return r.value.is_string() ? r.value : integer_of(r);
    case FieldKind::list:
    case FieldKind::text_list:
    case FieldKind::word_list:
      return list_of(r);
    case FieldKind::dict:
      if (!r.value.is_dict()) r.refuse("a section with keys");
      return r.value;
    case FieldKind::model:
      if (!r.value.is_dict()) r.refuse("a section with keys");
      return validated(*r.field.model, r.value, r.key);
    case FieldKind::anything:
      return r.value;
    case FieldKind::object:
      r.refuse("nothing: only a program can set this");
  }
  return r.value;
}

void check_limits(const Reading& r, const ConfigValue& value) {
  if (r.field.kind != FieldKind::integer && r.field.kind != FieldKind::number) return;
  const FieldLimits& limits = r.field.limits;
  const double number = value.number();
  if (limits.gt && !(number > *limits.gt)) r.refuse(fmt::format("more than {}", *limits.gt));
  if (limits.ge && !(number >= *limits.ge)) r.refuse(fmt::format("at least {}", *limits.ge));
  if (limits.lt && !(number < *limits.lt)) r.refuse(fmt::format("less than {}", *limits.lt));
  if (limits.le && !(number <= *limits.le)) r.refuse(fmt::format("at most {}", *limits.le));
}

}  // namespace

ConfigValue coerced(const ModelField& field, const ConfigValue& value, std::string_view key) {
  if (field.nullable && value.is_null()) return value;
  const Reading reading{.field = field, .value = value, .key = key};
  ConfigValue result = by_kind(reading);
  check_limits(reading, result);
  result.set_line(value.line());
  return result;
}

}  // namespace shardscope

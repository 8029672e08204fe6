#include "core/config/values/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "core/base/refusal.h"
#include "core/base/utf8.h"
#include "core/format/json_string.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

constexpr int max_depth = 256;
constexpr std::size_t max_bytes = std::size_t{64} << 20;
constexpr std::size_t max_integer_digits = 4300;  // Python's own limit, sys.get_int_max_str_digits

class Parser {
 public:
  Parser(std::string_view text, std::string_view file, DuplicateKeys duplicates)
      : rest_(text), file_(file), duplicates_(duplicates) {}

  ConfigValue parse() {
    if (rest_.size() > max_bytes) fail(fmt::format("over {} bytes", max_bytes));
    if (rest_.starts_with("\xEF\xBB\xBF")) fail("the file begins with a byte order mark");
    ConfigValue result = value(0);
    skip_blanks();
    if (!rest_.empty()) fail("expected the end of the file, got " + next_text());
    return result;
  }

 private:
  ConfigValue value(int depth) {
    skip_blanks();
    if (depth > max_depth) fail(fmt::format("nested deeper than {}", max_depth));
    if (rest_.empty()) fail("the file ends where a value is expected");
    const int line = line_;
    ConfigValue result = scalar_or_container(depth);
    result.set_line(line);
    return result;
  }

  ConfigValue scalar_or_container(int depth) {
    const char c = rest_.front();
    if (c == '{') return object(depth);
    if (c == '[') return array(depth);
    if (c == '"') return string();
    const std::pair<std::string_view, ConfigValue> words[] = {
        {"null", {}},          {"true", true},         {"false", false},
        {"NaN", std::nan("")}, {"Infinity", HUGE_VAL}, {"-Infinity", -HUGE_VAL}};
    for (const auto& [word, meaning] : words)
      if (rest_.starts_with(word)) return rest_.remove_prefix(word.size()), meaning;
    if (c == '-' || is_digit(c)) return number();
    fail("expected a value, got " + next_text());
  }

  ConfigValue object(int depth) {
    rest_.remove_prefix(1);
    ConfigValue result = ConfigValue::dict();
    std::map<std::string, std::size_t, std::less<>> places;
    skip_blanks();
    for (bool first = true; !take('}'); first = false) {
      if (!first && !take(',')) fail("expected ',' or '}', got " + next_text());
      skip_blanks();
      if (rest_.empty() || rest_.front() != '"')
        fail("expected a key in double quotes, got " + next_text());
      const int line = line_;
      std::string key = string();
      skip_blanks();
      if (!take(':')) fail("expected ':' after a key, got " + next_text());
      path_.push_back(key);
      add(result, places, {.key = std::move(key), .line = line, .value = value(depth + 1)});
      path_.pop_back();
      skip_blanks();
    }
    return result;
  }

  void add(ConfigValue& object, std::map<std::string, std::size_t, std::less<>>& places,
           ConfigValue::Entry entry) {
    const auto [place, fresh] = places.emplace(entry.key, object.size());
    if (fresh) return object.entries().push_back(std::move(entry));
    ConfigValue::Entry& before = object.entries()[place->second];
    if (duplicates_ == DuplicateKeys::refuse)
      throw Refusal("ValueError",
                    {.where = fmt::format("{}:{}: {}", file_, entry.line, path()),
                     .what = fmt::format("the key stands twice, first in line {}", before.line),
                     .way_out = "keep one of them"});
    object.add_duplicate({.key = entry.key, .first_line = before.line, .line = entry.line});
    before.line = entry.line;
    before.value = std::move(entry.value);
  }

  ConfigValue array(int depth) {
    rest_.remove_prefix(1);
    ConfigValue::List result;
    skip_blanks();
    for (bool first = true; !take(']'); first = false) {
      if (!first && !take(',')) fail("expected ',' or ']', got " + next_text());
      path_.push_back(fmt::format("{}", result.size()));
      result.push_back(value(depth + 1));
      path_.pop_back();
      skip_blanks();
    }
    return ConfigValue(std::move(result));
  }

  std::string string() {
    rest_.remove_prefix(1);
    std::string out;
    while (true) {
      if (rest_.empty()) fail("the file ends inside a string");
      const CodePoint point = first_code_point(rest_);
      if (point.bytes == 0) fail("a string is not valid UTF-8");
      if (point.value < 0x20) fail("a control character stands inside a string");
      if (point.value == '"') break;
      if (point.value == '\\') {
        escape(out);
        continue;
      }
      out += rest_.substr(0, point.bytes);
      rest_.remove_prefix(point.bytes);
    }
    rest_.remove_prefix(1);
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (rest_.size() < 2) fail("the file ends inside a string");
    const char letter = rest_[1];
    rest_.remove_prefix(2);
    if (letter == 'u') return append_utf8(out, unicode_escape());
    const std::size_t found = letters.find(letter);
    if (found == std::string_view::npos)
      fail(fmt::format("unknown escape \"\\{}\"", shown({&letter, 1})));
    out += meanings[found];
  }

  /// A lone half of a pair, which Python keeps, becomes U+FFFD: it has no UTF-8.
  std::uint32_t unicode_escape() {
    const std::uint32_t high = four_digits();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !rest_.starts_with("\\u")) return 0xFFFD;
    const std::string_view before = rest_;
    rest_.remove_prefix(2);
    const std::uint32_t low = four_digits();
    if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    rest_ = before;
    return 0xFFFD;
  }

  std::uint32_t four_digits() {
    std::uint32_t value = 0;
    const std::string_view digits = rest_.substr(0, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + 4)
      fail("expected four hexadecimal digits after \\u");
    rest_.remove_prefix(4);
    return value;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  std::size_t digits_at(std::size_t from) const {
    std::size_t end = from;
    while (end < rest_.size() && is_digit(rest_[end])) ++end;
    return end - from;
  }

  ConfigValue number() {
    std::size_t end = rest_.front() == '-' ? 1 : 0;
    const std::size_t whole = digits_at(end);
    if (whole == 0) fail("expected a value, got " + next_text());
    end += rest_[end] == '0' ? 1 : whole;
    const std::size_t integer_end = end;
    if (end < rest_.size() && rest_[end] == '.' && digits_at(end + 1) > 0)
      end += 1 + digits_at(end + 1);
    if (end < rest_.size() && (rest_[end] == 'e' || rest_[end] == 'E')) {
      const bool is_signed =
          end + 1 < rest_.size() && (rest_[end + 1] == '+' || rest_[end + 1] == '-');
      const std::size_t digits = digits_at(end + (is_signed ? 2 : 1));
      if (digits > 0) end += (is_signed ? 2 : 1) + digits;
    }
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return end == integer_end ? integer_of(text) : float_of(text);
  }

  ConfigValue integer_of(std::string_view text) {
    std::int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc())
      return value;
    if (text.size() > max_integer_digits)
      fail(fmt::format("an integer of more than {} digits", max_integer_digits));
    return BigInteger{std::string(text)};
  }

  static ConfigValue float_of(std::string_view text) {
    double value = 0;
    const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
    if (error == std::errc()) return value;
    // Out of range: from_chars does not tell which side; Python gives 0 or infinity.
    const std::size_t exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && text[exponent + 1] == '-';
    const double size = tiny ? 0.0 : HUGE_VAL;
    return text.front() == '-' ? -size : size;
  }

  void skip_blanks() {
    while (!rest_.empty() &&
           std::string_view(" \t\n\r").find(rest_.front()) != std::string_view::npos) {
      if (rest_.front() == '\n') ++line_;
      rest_.remove_prefix(1);
    }
  }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string next_text() const {
    if (rest_.empty()) return "the end of the file";
    return "\"" + shown(rest_.substr(0, rest_.find('\n')), 20) + "\"";
  }

  std::string path() const { return shown(fmt::format("{}", fmt::join(path_, ".")), 120); }

  [[noreturn]] void fail(std::string what) const {
    const std::string key_path = path();
    throw Refusal("JSONDecodeError", {.where = fmt::format("{}:{}{}", file_, line_,
                                                           key_path.empty() ? "" : ": " + key_path),
                                      .what = std::move(what),
                                      .way_out = {}});
  }

  std::string_view rest_;
  std::string_view file_;
  DuplicateKeys duplicates_;
  int line_ = 1;
  std::vector<std::string> path_;
};

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return python_float(value);
}

/// json.dumps writes the keys True, False and None as JSON's words.
std::string key_text(const ConfigValue::Entry& entry) {
  if (entry.key_type == "bool") return lower_of(entry.key);
  return entry.key_type == "NoneType" ? "null" : entry.key;
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  std::string text(const ConfigValue& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const ConfigValue& value, int depth) {
    if (value.is_null())
      out_ += "null";
    else if (value.is_boolean())
      out_ += value.boolean() ? "true" : "false";
    else if (value.is_double())
      out_ += number_text(value.number());
    else if (value.is_number())
      out_ += value.repr();
    else if (value.is_list())
      write_list(value, depth);
    else if (value.is_dict())
      write_dict(value, depth);
    else
      append_json_string(out_, value.str());
  }

  void write_list(const ConfigValue& value, int depth) {
    if (value.size() == 0) return void(out_ += "[]");
    out_ += '[';
    for (bool first = true; const ConfigValue& element : value.elements()) {
      separate(first, depth + 1);
      write(element, depth + 1);
    }
    close(']', depth);
  }

  void write_dict(const ConfigValue& value, int depth) {
    if (value.size() == 0) return void(out_ += "{}");
    out_ += '{';
    for (bool first = true; const ConfigValue::Entry& entry : value.entries()) {
      separate(first, depth + 1);
      append_json_string(out_, key_text(entry));
      out_ += ": ";
      write(entry.value, depth + 1);
    }
    close('}', depth);
  }

  void separate(bool& first, int depth) {
    if (!first) out_ += indent_ < 0 ? ", " : ",";
    first = false;
    new_line(depth);
  }
  void close(char bracket, int depth) {
    new_line(depth);
    out_ += bracket;
  }
  void new_line(int depth) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(depth), ' ');
  }

  int indent_;
  std::string out_;
};

}  // namespace

ConfigValue read_json(std::string_view text, std::string_view file, DuplicateKeys duplicates) {
  refuse_wide_encoding(text, file);
  return Parser(text, file, duplicates).parse();
}

std::string json_text(const ConfigValue& value, int indent) { return Writer(indent).text(value); }

}  // namespace shardscope

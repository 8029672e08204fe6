#include "core/config/deepspeed/hjson.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/refusal.h"
#include "core/config/deepspeed/hjson_text.h"
#include "core/config/values/python_number.h"

namespace shardscope {
namespace {

constexpr int max_depth = 256;
constexpr std::size_t max_integer_digits = 4300;  // Python's own limit

/// What Python writes as `ch in WHITESPACE`, the end of the text apart.
bool is_blank(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_punctuator(char32_t c) {
  return std::u32string_view(U"{}[],:").find(c) != std::u32string_view::npos;
}

/// A port of hjson's decoder, function by function: quirks are kept, as users' files meet them.
class Decoder {
 public:
  Decoder(const HjsonText& text, DuplicateKeys duplicates) : text_(text), duplicates_(duplicates) {}

  ConfigValue decode() {
    const std::size_t start = text_.at(0) == 0xFEFF ? 1 : 0;
    at_ = start;
    const char32_t first = next();
    if (start == 0 && first == HjsonText::none) return ConfigValue::dict();
    ConfigValue value = first == '{' || first == '[' ? scan(0) : root_without_braces();
    if (next() != HjsonText::none) fail("text follows after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void fail(std::string what) const { throw text_.error(at_, std::move(what)); }

  /// getNext: the next character that is neither blank nor in a comment.
  char32_t next() {
    while (true) {
      while (is_blank(text_.at(at_))) ++at_;
      const char32_t c = text_.at(at_);
      const char32_t second = text_.at(at_ + 1);
      if (c == '#' || (c == '/' && second == '/'))
        skip_line();
      else if (c == '/' && second == '*')
        skip_comment();
      else
        return c;
    }
  }

  void skip_line() {
    while (!text_.is_line_end(at_)) ++at_;
  }

  void skip_comment() {
    const std::size_t start = at_;
    at_ += 2;
    while (!(text_.at(at_) == '*' && text_.at(at_ + 1) == '/')) {
      if (text_.at(at_) == HjsonText::none)
        throw Refusal("IndexError", {.where = text_.where(start),
                                     .what = "the comment /* has no end",
                                     .way_out = "close it with */"});
      ++at_;
    }
    at_ += 2;
  }

  ConfigValue scan(int depth) {
    if (depth > max_depth) fail(fmt::format("nested deeper than {}", max_depth));
    const int line = text_.line_of(at_);
    ConfigValue value = scan_here(depth);
    value.set_line(line);
    return value;
  }

  ConfigValue scan_here(int depth) {
    const char32_t c = text_.at(at_);
    if (c == HjsonText::none) fail("the file ends where a value is expected");
    if (c == '\'' && text_.at(at_ + 1) == '\'' && text_.at(at_ + 2) == '\'')
      return ConfigValue(read_multiline(text_, at_));
    if (c == '"' || c == '\'') return ConfigValue(read_quoted(text_, at_));
    if (c == '{') return ++at_, object(depth, true);
    if (c == '[') return ++at_, array(depth);
    return quoteless();
  }

  ConfigValue root_without_braces() {
    const std::size_t start = at_;
    try {
      return object(0, false);
    } catch (const HjsonError&) {
      // Perhaps the file holds a single value; if not, the first complaint is the one to show.
      at_ = start;
      try {
        return scan(0);
      } catch (const Refusal&) {
      }
      throw;
    }
  }

  std::string key() {
    const char32_t first = next();
    if (first == '"' || first == '\'') return read_quoted(text_, at_);
    const std::size_t begin = at_;
    std::optional<std::size_t> blank;  // the last of the blanks that end the key so far
    for (;; ++at_) {
      const char32_t c = text_.at(at_);
      if (c == HjsonText::none) fail("the file ends inside a key");
      if (c == ':') return finished_key(begin, blank);
      if (is_blank(c)) {
        if (!blank || *blank + 1 == at_) blank = at_;
      } else if (is_punctuator(c)) {
        fail("expected a key, got a punctuation mark; quote the key if it belongs to it");
      }
    }
  }

  std::string finished_key(std::size_t begin, std::optional<std::size_t> blank) const {
    if (begin == at_) fail("expected a key before ':'");
    if (blank && *blank + 1 != at_) fail("a key with blanks in it needs quotes");
    return blank ? text_.right_stripped(begin, at_) : text_.slice(begin, at_);
  }

  ConfigValue object(int depth, bool braces) {
    const std::size_t start = at_;
    std::vector<ConfigValue::Entry> pairs;
    if (next() == '}' && braces) return ++at_, ConfigValue::dict();
    while (true) {
      next();
      const int line = text_.line_of(at_);
      std::string name = key();
      if (next() != ':') fail("expected ':' after a key");
      ++at_;
      next();
      pairs.push_back({.key = std::move(name), .line = line, .value = scan(depth + 1)});
      char32_t c = next();
      if (c == ',') {
        ++at_;
        c = next();
      }
      if (braces && c == '}') {
        ++at_;
        break;
      }
      if (!braces && c == HjsonText::none) break;
    }
    return dict_of(std::move(pairs), start);
  }

  ConfigValue dict_of(std::vector<ConfigValue::Entry> pairs, std::size_t start) const {
    ConfigValue dict = ConfigValue::dict();
    dict.set_line(text_.line_of(start));
    std::map<std::string, std::size_t> places;
    for (ConfigValue::Entry& pair : pairs) {
      const auto [place, fresh] = places.emplace(pair.key, dict.size());
      if (fresh) {
        dict.entries().push_back(std::move(pair));
        continue;
      }
      ConfigValue::Entry& before = dict.entries()[place->second];
      if (duplicates_ == DuplicateKeys::refuse)
        throw Refusal("ValueError",
                      {.where = fmt::format("{}:{}: {}", text_.file(), pair.line, pair.key),
                       .what = fmt::format("the key stands twice, first in line {}; DeepSpeed "
                                           "refuses that",
                                           before.line),
                       .way_out = "keep one of them"});
      dict.add_duplicate({.key = pair.key, .first_line = before.line, .line = pair.line});
      before = std::move(pair);
    }
    return dict;
  }

  ConfigValue array(int depth) {
    ConfigValue::List values;
    const char32_t first = next();
    if (first == ']') return ++at_, ConfigValue(std::move(values));
    if (first == HjsonText::none) fail("the file ends inside a list");
    while (true) {
      values.push_back(scan(depth + 1));
      char32_t c = next();
      if (c == ',') {
        ++at_;
        c = next();
      }
      if (c == ']') break;
    }
    ++at_;
    return ConfigValue(std::move(values));
  }

  /// scantfnns: true, false, null or a number if one ends at a punctuation mark or comment; else
  /// the rest of the line is text.
  ConfigValue quoteless() {
    const char32_t first = next();
    if (first == HjsonText::none || is_punctuator(first)) fail("expected a value");
    const std::size_t begin = at_;
    const std::optional<HjsonText::Word> word = text_.word(begin);
    const std::optional<std::size_t> number_end = text_.number_end(begin);
    for (;; ++at_) {
      const bool line_end = text_.is_line_end(at_);
      if (!line_end && !ends_word()) continue;
      if (word && word->end == at_) return word->meaning;
      if (number_end == at_) return number(text_.stripped(begin, at_));
      if (line_end) return ConfigValue(text_.stripped(begin, at_));
    }
  }

  bool ends_word() const {
    const char32_t c = text_.at(at_);
    const char32_t second = text_.at(at_ + 1);
    return c == ',' || c == '}' || c == ']' || c == '#' ||
           (c == '/' && (second == '/' || second == '*'));
  }

  ConfigValue number(const std::string& digits) const {
    if (digits.find_first_of(".eE") == std::string::npos) {
      if (digits.size() > max_integer_digits)
        throw Refusal("ValueError", {.where = text_.where(at_),
                                     .what = fmt::format("a number of {} digits", digits.size()),
                                     .way_out = fmt::format("at most {}", max_integer_digits)});
      return python_integer(digits);
    }
    const double value = python_float_of(digits);
    if (std::isinf(value))
      throw Refusal("OverflowError", {.where = text_.where(at_),
                                      .what = "a number beyond the range of a float",
                                      .way_out = {}});
    if (std::trunc(value) == value && std::abs(value) < 1e10)
      return ConfigValue(static_cast<std::int64_t>(value));
    return ConfigValue(value);
  }

  const HjsonText& text_;
  DuplicateKeys duplicates_;
  std::size_t at_ = 0;
};

}  // namespace

ConfigValue read_hjson(std::string_view text, std::string_view file, DuplicateKeys duplicates) {
  const HjsonText decoded(text, file);
  return Decoder(decoded, duplicates).decode();
}

}  // namespace shardscope

#include "core/config/deepspeed/hjson_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr std::size_t max_bytes = std::size_t{16} << 20;

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

/// str.strip() without arguments.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::optional<std::uint32_t> hex_digits(const HjsonText& text, std::size_t begin) {
  std::uint32_t value = 0;
  for (std::size_t i = begin; i < begin + 4; ++i) {
    const char32_t c = text.at(i);
    if (is_digit(c))
      value = value * 16 + (c - '0');
    else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
      value = value * 16 + ((c | 0x20) - 'a' + 10);
    else
      return std::nullopt;
  }
  return value;
}

/// \uXXXX with `at` on the 'u'. A lone half of a pair, which Python keeps, becomes U+FFFD.
std::uint32_t unicode_escape(const HjsonText& text, std::size_t& at) {
  const std::optional<std::uint32_t> high = hex_digits(text, at + 1);
  if (!high) throw text.error(at, "expected four hexadecimal digits after \\u");
  at += 5;
  if (*high < 0xD800 || *high > 0xDFFF) return *high;
  if (*high > 0xDBFF || text.at(at) != '\\' || text.at(at + 1) != 'u') return 0xFFFD;
  const std::optional<std::uint32_t> low = hex_digits(text, at + 2);
  if (!low) throw text.error(at, "expected four hexadecimal digits after \\u");
  if (*low < 0xDC00 || *low > 0xDFFF) return 0xFFFD;
  at += 6;
  return 0x10000 + ((*high - 0xD800) << 10 | (*low - 0xDC00));
}

void read_escape(const HjsonText& text, std::size_t& at, std::string& out) {
  constexpr std::u32string_view letters = U"\"'\\/bfnrt";
  constexpr std::string_view meanings = "\"'\\/\b\f\n\r\t";
  const char32_t letter = text.at(at);
  if (letter == HjsonText::none) throw text.error(at, "the file ends inside quoted text");
  if (letter == 'u') return append_utf8(out, unicode_escape(text, at));
  const std::size_t found = letters.find(letter);
  if (found == std::u32string_view::npos) throw text.error(at, "unknown escape in quoted text");
  out += meanings[found];
  ++at;
}

void skip_indent(const HjsonText& text, std::size_t& at, std::size_t most) {
  while (most > 0 && (text.at(at) == ' ' || text.at(at) == '\t' || text.at(at) == '\r')) {
    ++at;
    --most;
  }
}

}  // namespace

HjsonText::HjsonText(std::string_view text, std::string_view file) : file_(file) {
  if (text.size() > max_bytes)
    throw Error({.where = file_,
                 .what = fmt::format("{} bytes are too many for a configuration", text.size()),
                 .way_out = fmt::format("at most {} bytes are read", max_bytes)});
  if (const std::string_view encoding = wide_encoding(text); !encoding.empty())
    throw Refusal("UnicodeDecodeError", {.where = file_,
                                         .what = fmt::format("the file is {}", encoding),
                                         .way_out = "save it as UTF-8"});
  text_.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.bytes == 0)
      throw Refusal("UnicodeDecodeError",
                    {.where = fmt::format("{}:{}", file_, line_ends_.size() + 1),
                     .what = "the file is not valid UTF-8",
                     .way_out = {}});
    text.remove_prefix(point.bytes);
    const bool pair = point.value == '\r' && text.starts_with('\n');
    if (pair) continue;
    const char32_t c = point.value == '\r' ? U'\n' : static_cast<char32_t>(point.value);
    if (c == '\n') line_ends_.push_back(text_.size());
    text_ += c;
  }
}

int HjsonText::line_of(std::size_t index) const {
  const auto after = std::lower_bound(line_ends_.begin(), line_ends_.end(), index);
  return static_cast<int>(after - line_ends_.begin()) + 1;
}

std::string HjsonText::where(std::size_t index) const {
  return fmt::format("{}:{}", file_, line_of(index));
}

HjsonError HjsonText::error(std::size_t index, std::string what) const {
  return HjsonError({.where = where(index), .what = std::move(what), .way_out = {}});
}

std::string HjsonText::slice(std::size_t begin, std::size_t end) const {
  std::string out;
  for (std::size_t i = begin; i < end; ++i) append_utf8(out, text_[i]);
  return out;
}

std::string HjsonText::right_stripped(std::size_t begin, std::size_t end) const {
  while (end > begin && is_space(text_[end - 1])) --end;
  return slice(begin, end);
}

std::string HjsonText::stripped(std::size_t begin, std::size_t end) const {
  while (begin < end && is_space(text_[begin])) ++begin;
  return right_stripped(begin, end);
}

std::optional<HjsonText::Word> HjsonText::word(std::size_t begin) const {
  const std::pair<std::u32string_view, ConfigValue> words[] = {
      {U"null", {}}, {U"true", true}, {U"false", false}};
  for (const auto& [word, meaning] : words) {
    if (std::u32string_view(text_).substr(begin, word.size()) != word) continue;
    std::size_t last = begin + word.size();
    while (!is_line_end(last) && is_space(text_[last])) ++last;
    return Word{.meaning = meaning, .end = last};
  }
  return std::nullopt;
}

std::optional<std::size_t> HjsonText::number_end(std::size_t begin) const {
  std::size_t i = begin;
  if (at(i) == '-') ++i;
  if (!is_digit(at(i))) return std::nullopt;
  const auto digits = [&](std::size_t from) {
    while (is_digit(at(from))) ++from;
    return from;
  };
  i = at(i) == '0' ? i + 1 : digits(i);
  if (at(i) == '.' && is_digit(at(i + 1))) i = digits(i + 1);
  if (at(i) == 'e' || at(i) == 'E') {
    const std::size_t sign = at(i + 1) == '-' || at(i + 1) == '+' ? 1 : 0;
    if (is_digit(at(i + 1 + sign))) i = digits(i + 1 + sign);
  }
  while (at(i) == ' ' || at(i) == '\t') ++i;
  return i;
}

std::optional<std::size_t> HjsonText::indent_of(std::size_t index) const {
  if (line_ends_.empty()) return std::nullopt;
  const auto after = std::lower_bound(line_ends_.begin(), line_ends_.end(), index);
  if (after != line_ends_.begin()) return index - *(after - 1) - 1;
  return index + (text_.size() - line_ends_.back() - 1);
}

std::string read_quoted(const HjsonText& text, std::size_t& at) {
  const std::size_t begin = at;
  const char32_t quote = text.at(at++);
  std::string out;
  while (true) {
    const char32_t c = text.at(at);
    if (c == HjsonText::none) throw text.error(begin, "the file ends inside quoted text");
    ++at;
    if (c == quote) return out;
    if (c < 0x20) throw text.error(at - 1, "a control character stands inside quoted text");
    if (c == '\\')
      read_escape(text, at, out);
    else
      append_utf8(out, c);
  }
}

std::string read_multiline(const HjsonText& text, std::size_t& at) {
  const std::optional<std::size_t> indent = text.indent_of(at);
  if (!indent)
    throw Refusal("IndexError", {.where = text.where(at),
                                 .what = "''' needs a file of more than one line",
                                 .way_out = "use double quotes"});
  at += 3;
  skip_indent(text, at, text.size());
  if (text.at(at) == HjsonText::none)
    throw Refusal("IndexError", {.where = text.where(at), .what = "''' has no end", .way_out = {}});
  if (text.at(at) == '\n') skip_indent(text, ++at, *indent);
  std::string out;
  int quotes = 0;
  while (true) {
    const char32_t c = text.at(at);
    if (c == HjsonText::none) throw text.error(at, "''' has no end");
    ++at;
    if (c == '\'') {
      if (++quotes < 3) continue;
      if (out.ends_with('\n')) out.pop_back();
      return out;
    }
    out.append(static_cast<std::size_t>(quotes), '\'');
    quotes = 0;
    append_utf8(out, c);
    if (c == '\n') skip_indent(text, at, *indent);
  }
}

}  // namespace shardscope

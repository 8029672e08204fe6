// Scalars: block, quoted and plain.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/utf8.h"
#include "core/config/yaml/scanner.h"

namespace shardscope::yaml {
namespace {

struct Escape {
  char32_t letter;
  std::string_view meaning;
};

/// Source: scanner.py, ESCAPE_REPLACEMENTS.
constexpr Escape escapes[] = {
    {U'0', {"\0", 1}},
    {U'a', "\a"},
    {U'b', "\b"},
    {U't', "\t"},
    {U'\t', "\t"},
    {U'n', "\n"},
    {U'v', "\v"},
    {U'f', "\f"},
    {U'r', "\r"},
    {U'e', "\x1B"},
    {U' ', " "},
    {U'"', "\""},
    {U'\\', "\\"},
    {U'/', "/"},
    {U'N', "\xC2\x85"},
    {U'_', "\xC2\xA0"},
    {U'L', "\xE2\x80\xA8"},
    {U'P', "\xE2\x80\xA9"},
};

std::size_t digits_behind(char32_t letter) {
  if (letter == U'x') return 2;
  if (letter == U'u') return 4;
  return letter == U'U' ? 8 : 0;
}

}  // namespace

std::string Scanner::scan_line_break() {
  if (!characters_.next_in(breaks)) return {};
  const bool plain = characters_.next_in(U"\r\n\x85");
  std::string text = plain ? "\n" : characters_.prefix(1);
  characters_.forward();
  return text;
}

Token Scanner::scan_block_scalar() {
  Token token{.kind = TokenKind::scalar, .start = characters_.mark()};
  const bool folded = characters_.peek() == U'>';
  characters_.forward();
  const BlockHeader header = scan_block_header(token.start);
  skip_rest_of_line(token.start, "the header of a block");

  const int least = std::max(indent_ + 1, 1);
  int indent = 0;
  std::string line_breaks;
  if (header.increment) {
    indent = least + *header.increment - 1;
    line_breaks = scan_block_breaks(indent);
  } else {
    int widest = 0;
    line_breaks = scan_block_indentation(widest);
    indent = std::max(least, widest);
  }

  std::string line_break;
  while (column() == indent && characters_.peek() != U'\0') {
    token.text += line_breaks;
    const bool starts_with_text = !characters_.next_in(U" \t");
    std::size_t length = 0;
    while (!characters_.next_in(break_or_end, length)) ++length;
    token.text += take(length);
    line_break = scan_line_break();
    line_breaks = scan_block_breaks(indent);
    if (column() != indent || characters_.peek() == U'\0') break;
    if (folded && line_break == "\n" && starts_with_text && !characters_.next_in(U" \t"))
      token.text += line_breaks.empty() ? " " : "";
    else
      token.text += line_break;
  }
  if (header.keep != false) token.text += line_break;
  if (header.keep == true) token.text += line_breaks;
  return token;
}

int Scanner::scan_block_increment(Mark start) {
  const int increment = static_cast<int>(characters_.peek() - U'0');
  if (increment == 0) throw error(start, "the indentation of a block must be from 1 to 9, got 0");
  characters_.forward();
  return increment;
}

Scanner::BlockHeader Scanner::scan_block_header(Mark start) {
  constexpr std::u32string_view digits = U"0123456789";
  BlockHeader header;
  const auto chomping = [&] {
    if (!characters_.next_in(U"+-")) return false;
    header.keep = characters_.peek() == U'+';
    characters_.forward();
    return true;
  };
  if (chomping()) {
    if (characters_.next_in(digits)) header.increment = scan_block_increment(start);
  } else if (characters_.next_in(digits)) {
    header.increment = scan_block_increment(start);
    chomping();
  }
  if (!characters_.next_in(blank_break_or_end))
    throw error(start, "expected '+', '-' or an indentation behind '|' or '>', got " +
                           characters_.shown_next());
  return header;
}

std::string Scanner::scan_block_indentation(int& widest) {
  std::string text;
  while (characters_.peek() == U' ' || characters_.next_in(breaks)) {
    if (characters_.peek() == U' ') {
      characters_.forward();
      widest = std::max(widest, column());
    } else {
      text += scan_line_break();
    }
  }
  return text;
}

std::string Scanner::scan_block_breaks(int indent) {
  std::string text;
  const auto skip = [&] {
    while (column() < indent && characters_.peek() == U' ') characters_.forward();
  };
  skip();
  while (characters_.next_in(breaks)) {
    text += scan_line_break();
    skip();
  }
  return text;
}

Token Scanner::scan_flow_scalar() {
  Token token{.kind = TokenKind::scalar, .start = characters_.mark()};
  const char32_t quote = characters_.peek();
  const bool doubled = quote == U'"';
  characters_.forward();
  token.text = scan_flow_text(doubled, token.start);
  while (characters_.peek() != quote) {
    token.text += scan_flow_spaces(token.start);
    token.text += scan_flow_text(doubled, token.start);
  }
  characters_.forward();
  return token;
}

std::string Scanner::scan_flow_text(bool doubled, Mark start) {
  constexpr std::u32string_view ends{U"'\"\\\0 \t\r\n\x85\u2028\u2029", 11};
  std::string text;
  while (true) {
    std::size_t length = 0;
    while (!characters_.next_in(ends, length)) ++length;
    text += take(length);
    const char32_t next = characters_.peek();
    if (!doubled && next == U'\'' && characters_.peek(1) == U'\'') {
      text += '\'';
      characters_.forward(2);
    } else if ((doubled && next == U'\'') || (!doubled && (next == U'"' || next == U'\\'))) {
      text += take(1);
    } else if (doubled && next == U'\\') {
      characters_.forward();
      if (!scan_escape(text, start))
        throw error(start, "unknown escape \\" + characters_.prefix(1));
    } else {
      return text;
    }
  }
}

bool Scanner::scan_escape(std::string& out, Mark start) {
  const char32_t letter = characters_.peek();
  for (const Escape& escape : escapes) {
    if (escape.letter != letter) continue;
    out += escape.meaning;
    characters_.forward();
    return true;
  }
  if (characters_.next_in(breaks)) {
    scan_line_break();
    out += scan_flow_breaks(start);
    return true;
  }
  const std::size_t count = digits_behind(letter);
  if (count == 0) return false;
  characters_.forward();
  for (std::size_t i = 0; i < count; ++i)
    if (!characters_.next_in(hexadecimal, i))
      throw error(start, fmt::format("expected {} hexadecimal digits, got {}", count,
                                     characters_.shown_next(i)));
  const std::string digits = take(count);
  std::uint32_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (value > 0x10FFFF)
    throw characters_.error("ValueError", start, fmt::format("U+{:X} is no character", value));
  // Half of a surrogate pair, which Python keeps, has no UTF-8.
  append_utf8(out, value >= 0xD800 && value <= 0xDFFF ? 0xFFFD : value);
  return true;
}

std::string Scanner::scan_flow_spaces(Mark start) {
  std::size_t length = 0;
  while (characters_.next_in(U" \t", length)) ++length;
  std::string spaces = take(length);
  if (characters_.peek() == U'\0') throw error(start, "the file ends inside a quoted text");
  if (!characters_.next_in(breaks)) return spaces;
  const std::string line_break = scan_line_break();
  const std::string more = scan_flow_breaks(start);
  if (line_break != "\n") return line_break + more;
  return more.empty() ? " " : more;
}

std::string Scanner::scan_flow_breaks(Mark start) {
  std::string text;
  while (true) {
    if (characters_.at_document_marker(U'-') || characters_.at_document_marker(U'.'))
      throw error(start, "a document marker stands inside a quoted text");
    while (characters_.next_in(U" \t")) characters_.forward();
    if (!characters_.next_in(breaks)) return text;
    text += scan_line_break();
  }
}

std::size_t Scanner::plain_length() const {
  constexpr std::u32string_view flow_ends = U",?[]{}";
  constexpr std::u32string_view flow_ends_behind_colon = U",[]{}";
  const bool in_flow = flow_level_ > 0;
  std::size_t length = 0;
  while (true) {
    if (characters_.next_in(white_or_end, length)) return length;
    if (in_flow && characters_.next_in(flow_ends, length)) return length;
    if (characters_.peek(length) == U':' &&
        (characters_.next_in(white_or_end, length + 1) ||
         (in_flow && characters_.next_in(flow_ends_behind_colon, length + 1))))
      return length;
    ++length;
  }
}

Token Scanner::scan_plain() {
  Token token{.kind = TokenKind::scalar, .start = characters_.mark()};
  token.plain = true;
  const int indent = indent_ + 1;
  std::string spaces;
  while (characters_.peek() != U'#') {
    const std::size_t length = plain_length();
    if (length == 0) break;
    allow_simple_key_ = false;
    token.text += spaces + take(length);
    bool ended = false;
    spaces = scan_plain_spaces(ended);
    if (ended || spaces.empty() || characters_.peek() == U'#' ||
        (flow_level_ == 0 && column() < indent))
      break;
  }
  return token;
}

/// `ended`: a document marker follows.
std::string Scanner::scan_plain_spaces(bool& ended) {
  std::size_t length = 0;
  while (characters_.peek(length) == U' ') ++length;
  std::string spaces = take(length);
  if (!characters_.next_in(breaks)) return spaces;
  const std::string line_break = scan_line_break();
  allow_simple_key_ = true;
  const auto at_marker = [&] {
    return characters_.at_document_marker(U'-') || characters_.at_document_marker(U'.');
  };
  std::string more;
  if ((ended = at_marker())) return {};
  while (characters_.peek() == U' ' || characters_.next_in(breaks)) {
    if (characters_.peek() == U' ') {
      characters_.forward();
      continue;
    }
    more += scan_line_break();
    if ((ended = at_marker())) return {};
  }
  if (line_break != "\n") return line_break + more;
  return more.empty() ? " " : more;
}

}  // namespace shardscope::yaml

// Directives, anchors, aliases and tags.
#include <fmt/format.h>

#include <charconv>

#include "core/base/utf8.h"
#include "core/config/yaml/scanner.h"

namespace shardscope::yaml {
namespace {

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_alphanumeric(char32_t c) {
  return is_digit(c) || (c >= U'A' && c <= U'Z') || (c >= U'a' && c <= U'z');
}
bool is_word(char32_t c) { return is_alphanumeric(c) || c == U'-' || c == U'_'; }

}  // namespace

std::string Scanner::take(std::size_t length) {
  std::string text = characters_.prefix(length);
  characters_.forward(length);
  return text;
}

std::string Scanner::take_word() {
  std::size_t length = 0;
  while (is_word(characters_.peek(length))) ++length;
  return take(length);
}

Token Scanner::scan_directive() {
  Token token{.kind = TokenKind::directive, .start = characters_.mark()};
  characters_.forward();
  token.text = scan_directive_name(token.start);
  if (token.text == "YAML")
    scan_yaml_directive(token);
  else if (token.text == "TAG")
    scan_tag_directive(token);
  else
    while (!characters_.next_in(break_or_end)) characters_.forward();
  skip_rest_of_line(token.start, "a directive");
  return token;
}

void Scanner::skip_rest_of_line(Mark start, const char* what) {
  while (characters_.peek() == U' ') characters_.forward();
  if (characters_.peek() == U'#')
    while (!characters_.next_in(break_or_end)) characters_.forward();
  if (!characters_.next_in(break_or_end))
    throw error(start, fmt::format("expected the end of the line behind {}, got {}", what,
                                   characters_.shown_next()));
  scan_line_break();
}

std::string Scanner::scan_directive_name(Mark start) {
  std::string name = take_word();
  if (name.empty() || !characters_.next_in(blank_break_or_end))
    throw error(start, fmt::format("expected a letter or digit in the name of a directive, got {}",
                                   characters_.shown_next()));
  return name;
}

int Scanner::scan_directive_number(Mark start) {
  std::size_t length = 0;
  while (is_digit(characters_.peek(length))) ++length;
  if (length == 0) throw error(start, "expected a digit, got " + characters_.shown_next());
  const std::string digits = take(length);
  int value = 0;
  // A number beyond an int is no version 1 either way.
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    return 0;
  return value;
}

void Scanner::scan_yaml_directive(Token& token) {
  while (characters_.peek() == U' ') characters_.forward();
  token.major = scan_directive_number(token.start);
  if (characters_.peek() != U'.')
    throw error(token.start, "expected a digit or '.', got " + characters_.shown_next());
  characters_.forward();
  scan_directive_number(token.start);
  if (!characters_.next_in(blank_break_or_end))
    throw error(token.start, "expected a digit or a blank, got " + characters_.shown_next());
}

void Scanner::scan_tag_directive(Token& token) {
  while (characters_.peek() == U' ') characters_.forward();
  token.handle = scan_tag_handle(token.start);
  if (characters_.peek() != U' ')
    throw error(token.start, "expected a blank, got " + characters_.shown_next());
  while (characters_.peek() == U' ') characters_.forward();
  token.prefix = scan_tag_uri(token.start);
  if (!characters_.next_in(blank_break_or_end))
    throw error(token.start, "expected a blank, got " + characters_.shown_next());
}

Token Scanner::scan_name(TokenKind kind) {
  Token token{.kind = kind, .start = characters_.mark()};
  characters_.forward();
  token.text = take_word();
  if (token.text.empty() ||
      !(characters_.next_in(white_or_end) || characters_.next_in(U"?:,]}%@`")))
    throw error(token.start, fmt::format("expected a letter or digit in the name of an {}, got {}",
                                         kind == TokenKind::alias ? "alias" : "anchor",
                                         characters_.shown_next()));
  return token;
}

Token Scanner::scan_tag() {
  Token token{.kind = TokenKind::tag, .start = characters_.mark()};
  if (characters_.peek(1) == U'<') {
    characters_.forward(2);
    token.text = scan_tag_uri(token.start);
    if (characters_.peek() != U'>')
      throw error(token.start, "expected '>', got " + characters_.shown_next());
    characters_.forward();
  } else if (characters_.next_in(white_or_end, 1)) {
    token.text = "!";
    characters_.forward();
  } else {
    std::size_t length = 1;
    while (!characters_.next_in(blank_break_or_end, length) && characters_.peek(length) != U'!')
      ++length;
    token.handle = "!";
    if (characters_.peek(length) == U'!')
      token.handle = scan_tag_handle(token.start);
    else
      characters_.forward();
    token.text = scan_tag_uri(token.start);
  }
  if (!characters_.next_in(blank_break_or_end))
    throw error(token.start, "expected a blank behind a tag, got " + characters_.shown_next());
  return token;
}

std::string Scanner::scan_tag_handle(Mark start) {
  if (characters_.peek() != U'!')
    throw error(start, "expected '!', got " + characters_.shown_next());
  std::size_t length = 1;
  if (characters_.peek(1) != U' ') {
    while (is_word(characters_.peek(length))) ++length;
    if (characters_.peek(length) != U'!')
      throw error(start, "expected '!', got " + characters_.shown_next(length));
    ++length;
  }
  return take(length);
}

std::string Scanner::scan_tag_uri(Mark start) {
  constexpr std::u32string_view others = U"-;/?:@&=+$,_.!~*'()[]";
  std::string uri;
  while (true) {
    std::size_t length = 0;
    while (is_alphanumeric(characters_.peek(length)) || characters_.next_in(others, length))
      ++length;
    uri += take(length);
    if (characters_.peek() != U'%') break;
    uri += scan_uri_escapes(start);
  }
  if (uri.empty())
    throw error(start, "expected the name of a tag, got " + characters_.shown_next());
  return uri;
}

std::string Scanner::scan_uri_escapes(Mark start) {
  std::string bytes;
  while (characters_.peek() == U'%') {
    characters_.forward();
    if (!characters_.next_in(hexadecimal) || !characters_.next_in(hexadecimal, 1))
      throw error(start, "expected two hexadecimal digits behind '%'");
    const std::string digits = take(2);
    int value = 0;
    std::from_chars(digits.data(), digits.data() + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  if (!is_utf8(bytes)) throw error(start, "the escapes of a tag are not valid UTF-8");
  return bytes;
}

}  // namespace shardscope::yaml

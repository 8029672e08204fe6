#include "traces/import/json_scanner.h"

#include <array>
#include <charconv>
#include <cstddef>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr int max_depth = 64;
constexpr std::uint32_t replacement = 0xFFFD;

using ByteSet = std::array<bool, 256>;

/// Bytes of a string that need a second look.
constexpr ByteSet stops = [] {
  ByteSet set{};
  for (std::size_t c = 0; c < 256; ++c) set[c] = c < 0x20 || c >= 0x80;
  set['"'] = set['\\'] = true;
  return set;
}();

/// Bytes of numbers, true, false, null, NaN, Infinity.
constexpr ByteSet scalars = [] {
  ByteSet set{};
  for (char c = '0'; c <= '9'; ++c) set[static_cast<unsigned char>(c)] = true;
  for (char c = 'a'; c <= 'z'; ++c) set[static_cast<unsigned char>(c)] = true;
  for (const char c : std::string_view("+-.EINT")) set[static_cast<unsigned char>(c)] = true;
  return set;
}();

bool in(const ByteSet& set, char c) { return set[static_cast<unsigned char>(c)]; }

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool is_not_a_number(std::string_view token) {
  const std::size_t sign = token.starts_with('-') || token.starts_with('+') ? 1 : 0;
  const std::string_view word = token.substr(sign);
  return word == "NaN" || word == "nan" || word == "Infinity" || word == "inf";
}

/// The four hexadecimal digits of an escape; none where they are not.
bool hex4(std::string_view digits, std::uint32_t& value) {
  if (digits.size() < 4) return false;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 4, value, 16);
  return error == std::errc() && end == digits.data() + 4;
}

/// Takes an escape (behind its backslash) off `inside`.
void append_escape(std::string& out, std::string_view& inside) {
  const char c = inside.front();
  inside.remove_prefix(1);
  constexpr std::string_view letters = "bfnrt", meanings = "\b\f\n\r\t";
  if (const auto at = letters.find(c); at != letters.npos) {
    out += meanings[at];
    return;
  }
  std::uint32_t value = 0, low = 0;
  if (c != 'u' || !hex4(inside, value)) {
    out += c;
    return;
  }
  inside.remove_prefix(4);
  const bool is_high = value >= 0xD800 && value < 0xDC00;
  if (is_high && inside.starts_with("\\u") && hex4(inside.substr(2), low) && low >= 0xDC00 &&
      low < 0xE000) {
    inside.remove_prefix(6);
    value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
  } else if (value >= 0xD800 && value < 0xE000) {
    value = replacement;
  }
  append_utf8(out, value);
}

/// Takes a character that is no escape off `text`.
void append_character(std::string& out, std::string_view& text) {
  const CodePoint point = first_code_point(text);
  if (point.bytes == 0) append_utf8(out, replacement);
  if (point.bytes > 0) out.append(text.substr(0, point.bytes));
  text.remove_prefix(point.bytes > 0 ? point.bytes : 1);
}

/// Takes a string, from behind its opening quote to its closing one, off `text`.
void append_strict_string(std::string& out, std::string_view& text) {
  constexpr std::string_view digits = "0123456789abcdef";
  while (!text.empty()) {
    const char c = text.front();
    if (c == '\\' && text.size() > 1 &&
        (!in(stops, text[1]) || text[1] == '"' || text[1] == '\\')) {
      out.append(text.substr(0, 2));
      text.remove_prefix(2);
    } else if (c == '\\') {
      text.remove_prefix(1);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += digits[static_cast<std::size_t>(c) >> 4];
      out += digits[static_cast<std::size_t>(c) & 15];
      text.remove_prefix(1);
    } else {
      append_character(out, text);
      if (c == '"') return;
    }
  }
}

}  // namespace

char JsonScanner::peek() {
  while (at_ < end_ && is_space(*at_)) ++at_;
  return at_ < end_ ? *at_ : '\0';
}

bool JsonScanner::take(char expected) {
  if (peek() != expected) return false;
  ++at_;
  return true;
}

bool JsonScanner::utf8_sequence() {
  const auto left = static_cast<std::size_t>(end_ - at_);
  const CodePoint point = first_code_point({at_, left});
  at_ += point.bytes > 0 ? point.bytes : 1;
  return point.bytes > 0;
}

Scan JsonScanner::string_end() {
  for (;;) {
    while (!in(stops, *at_)) ++at_;
    if (at_ >= end_) return Scan::cut;
    const char c = *at_;
    if (c == '"') return Scan::ok;
    if (c == '\\') {
      if (at_ + 1 >= end_) return Scan::cut;
      at_ += 2;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      notes_.control_character = true;
      ++at_;
    } else {
      notes_.bad_utf8 |= !utf8_sequence();
    }
  }
}

Scan JsonScanner::string(std::string_view& inside) {
  if (peek() != '"') return missing();
  const char* begin = ++at_;
  if (const Scan scan = string_end(); scan != Scan::ok) return scan;
  inside = {begin, static_cast<std::size_t>(at_ - begin)};
  ++at_;
  return Scan::ok;
}

Scan JsonScanner::key(std::string_view& inside) {
  if (const Scan scan = string(inside); scan != Scan::ok) return scan;
  return take(':') ? Scan::ok : missing();
}

Scan JsonScanner::scalar() {
  const char* begin = at_;
  while (in(scalars, *at_)) ++at_;
  if (at_ >= end_) return Scan::cut;
  if (at_ == begin) return Scan::bad;
  const std::string_view token(begin, static_cast<std::size_t>(at_ - begin));
  if (*begin > '9' || (token.size() > 1 && begin[1] > '9'))
    notes_.not_a_number |= is_not_a_number(token);
  return Scan::ok;
}

/// Objects are 1 in `kinds`, lowest bit innermost.
Scan JsonScanner::container() {
  std::uint64_t kinds = 0;
  int depth = 0;
  std::string_view ignored;
  for (;;) {
    // Before a member or an element, or the end of an empty container (a comma may stand before
    // it).
    const char c = peek();
    const bool is_object = kinds & 1;
    if (depth > 0 && c == (is_object ? '}' : ']')) {
      // falls through to the closing below
    } else {
      if (depth > 0 && is_object) {
        if (const Scan scan = key(ignored); scan != Scan::ok) return scan;
      }
      const char first = peek();
      if (first == '{' || first == '[') {
        if (depth == max_depth) return Scan::bad;
        kinds = kinds << 1 | (first == '{' ? 1 : 0);
        ++depth;
        ++at_;
        continue;
      }
      const Scan scan = first == '"' ? string(ignored) : at_end() ? Scan::cut : scalar();
      if (scan != Scan::ok) return scan;
    }
    for (;;) {  // behind a member or an element
      const char next = peek();
      if (next == ',') break;
      if (next != ((kinds & 1) ? '}' : ']')) return missing();
      ++at_;
      kinds >>= 1;
      if (--depth == 0) return Scan::ok;
    }
    ++at_;
  }
}

Scan JsonScanner::value(std::string_view& text) {
  const char first = peek();
  const char* begin = at_;
  Scan scan = Scan::cut;
  std::string_view inside;
  if (first == '{' || first == '[') {
    scan = container();
  } else if (first == '"') {
    scan = string(inside);
  } else if (!at_end()) {
    scan = scalar();
  }
  text = {begin, static_cast<std::size_t>(at_ - begin)};
  return scan;
}

std::string unescaped(std::string_view inside) {
  std::string out;
  out.reserve(inside.size());
  while (!inside.empty()) {
    if (inside.front() == '\\' && inside.size() > 1) {
      inside.remove_prefix(1);
      append_escape(out, inside);
    } else {
      append_character(out, inside);
    }
  }
  return out;
}

std::string strict_json(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t scalar = [&] {
      std::size_t length = 0;
      while (length < text.size() && in(scalars, text[length])) ++length;
      return length;
    }();
    if (text.front() == '"') {
      out += '"';
      text.remove_prefix(1);
      append_strict_string(out, text);
    } else if (scalar > 0) {
      const std::string_view token = text.substr(0, scalar);
      out += is_not_a_number(token) ? "null" : token;
      text.remove_prefix(scalar);
    } else {
      append_character(out, text);
    }
  }
  return out;
}

}  // namespace shardscope

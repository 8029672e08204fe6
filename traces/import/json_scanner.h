// Walks over JSON text that may be cut off, damaged or odd, without building anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

/// What became of a step over the text.
enum class Scan : std::uint8_t {
  ok,
  cut,  ///< the text ended first
  bad,  ///< no JSON, or nested deeper than 64
};

/// Oddities that are accepted, and said.
struct ScanNotes {
  bool control_character = false;  ///< raw, inside a string
  bool bad_utf8 = false;
  bool not_a_number = false;  ///< NaN, Infinity
  bool any() const { return control_character || bad_utf8 || not_a_number; }
};

/// A cursor. The byte at `end` must exist and be zero, so that no step has to ask where it is.
class JsonScanner {
 public:
  JsonScanner(const char* at, const char* end) : at_(at), end_(end) {}

  const char* at() const { return at_; }
  void move_to(const char* at) { at_ = at; }
  bool at_end() const { return at_ >= end_; }
  const ScanNotes& notes() const { return notes_; }
  void clear_notes() { notes_ = {}; }

  /// The next byte that is no white space, zero at the end; it is not taken.
  char peek();
  /// Takes `expected` if it comes next.
  bool take(char expected);
  /// cut at the end of the text, bad elsewhere: for what is not there.
  Scan missing() const { return at_end() ? Scan::cut : Scan::bad; }
  /// A string; `inside` is what stands between its quotes, escapes as they are.
  Scan string(std::string_view& inside);
  /// "key" and its colon.
  Scan key(std::string_view& inside);
  /// Any value; `text` is all of it, a string's quotes too.
  Scan value(std::string_view& text);

 private:
  Scan string_end();
  Scan scalar();
  Scan container();
  bool utf8_sequence();

  const char* at_;
  const char* end_;
  ScanNotes notes_;
};

/// Calls `visit(key, value text)` for each member of the object `text`, until something is wrong
/// with it. A zero byte must follow the text or what it is a part of.
template <class Visit>
void for_each_member(std::string_view text, const Visit& visit) {
  JsonScanner scanner(text.data(), text.data() + text.size());
  if (!scanner.take('{')) return;
  std::string_view key, value;
  while (scanner.peek() == '"') {
    if (scanner.key(key) != Scan::ok || scanner.value(value) != Scan::ok) return;
    visit(key, value);
    if (!scanner.take(',')) return;
  }
}

/// The same for the elements of an array: `visit(value text)`.
template <class Visit>
void for_each_element(std::string_view text, const Visit& visit) {
  JsonScanner scanner(text.data(), text.data() + text.size());
  if (!scanner.take('[')) return;
  std::string_view value;
  while (scanner.peek() != ']') {
    if (scanner.value(value) != Scan::ok) return;
    visit(value);
    if (!scanner.take(',')) return;
  }
}

/// The characters that the inside of a string means: escapes resolved, bad UTF-8 replaced by
/// U+FFFD.
std::string unescaped(std::string_view inside);

/// `text` as strict JSON: control characters in strings escaped, bad UTF-8 replaced, NaN and
/// infinities null.
std::string strict_json(std::string_view text);

}  // namespace shardscope

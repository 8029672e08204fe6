// The characters of a YAML file with the place of the next one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/refusal.h"

namespace shardscope::yaml {

/// A place in the text. Lines and columns count from 0, as PyYAML's marks do.
struct Mark {
  std::size_t index = 0;
  int line = 0;
  int column = 0;
};

/// A cursor over decoded text that ends in NUL. Source: PyYAML 6.0.3 reader.py, Reader.
class Characters {
 public:
  /// Bytes that are no UTF-8 raise UnicodeDecodeError, characters that YAML does not take
  /// ReaderError, UTF-16 and files over 8 MiB Error. "\r\n" and "\r" become "\n", as Python's open
  /// does.
  Characters(std::string_view bytes, std::string_view file);

  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0';
  }
  std::string prefix(std::size_t length) const;
  void forward(std::size_t length = 1);
  Mark mark() const { return {at_, line_, column_}; }

  /// The next character is one of `set`.
  bool next_in(std::u32string_view set, std::size_t ahead = 0) const {
    return set.find(peek(ahead)) != std::u32string_view::npos;
  }
  /// "---" or "..." with a blank or line break behind.
  bool at_document_marker(char32_t dots) const;
  /// The next character in words: "'a'".
  std::string shown_next(std::size_t ahead = 0) const;
  /// An error of the given class of PyYAML at a place.
  Refusal error(const char* type, Mark mark, std::string what) const;

 private:
  std::u32string text_;
  std::string file_;
  std::size_t at_ = 0;
  int line_ = 0;
  int column_ = 0;
};

inline constexpr std::u32string_view breaks = U"\r\n\x85\u2028\u2029";
inline constexpr std::u32string_view break_or_end{U"\0\r\n\x85\u2028\u2029", 6};
inline constexpr std::u32string_view blank_break_or_end{U"\0 \r\n\x85\u2028\u2029", 7};
inline constexpr std::u32string_view white_or_end{U"\0 \t\r\n\x85\u2028\u2029", 8};
inline constexpr std::u32string_view hexadecimal = U"0123456789ABCDEFabcdef";

}  // namespace shardscope::yaml

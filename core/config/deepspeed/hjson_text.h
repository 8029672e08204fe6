// The characters of an Hjson file with their lines, and the pieces of its grammar that are no
// structure: quoted text, words and numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/refusal.h"
#include "core/config/values/config_value.h"

namespace shardscope {

/// hjson.HjsonDecodeError.
class HjsonError : public Refusal {
 public:
  explicit HjsonError(Parts parts) : Refusal("HjsonDecodeError", std::move(parts)) {}
};

/// A file as Python's text mode gives it: code points, every end of line a '\n'.
class HjsonText {
 public:
  static constexpr char32_t none = 0xFFFFFFFF;  ///< what stands behind the last character

  /// Throws Refusal UnicodeDecodeError where the text is no UTF-8, Error over 16 MiB.
  HjsonText(std::string_view text, std::string_view file);

  char32_t at(std::size_t index) const { return index < text_.size() ? text_[index] : none; }
  bool is_line_end(std::size_t index) const { return at(index) == '\n' || at(index) == none; }
  std::size_t size() const { return text_.size(); }
  const std::string& file() const { return file_; }
  int line_of(std::size_t index) const;
  std::string where(std::size_t index) const;  ///< "file:line"
  HjsonError error(std::size_t index, std::string what) const;

  /// text[begin:end] as UTF-8.
  std::string slice(std::size_t begin, std::size_t end) const;
  /// text[begin:end].rstrip().
  std::string right_stripped(std::size_t begin, std::size_t end) const;
  /// text[begin:end].strip().
  std::string stripped(std::size_t begin, std::size_t end) const;
  /// null, true or false at `begin`, and where the blanks behind it in its line end.
  struct Word {
    ConfigValue meaning;
    std::size_t end = 0;
  };
  std::optional<Word> word(std::size_t begin) const;
  /// Where a number that begins at `begin`, with the blanks behind it, ends.
  std::optional<std::size_t> number_end(std::size_t begin) const;
  /// Characters between the start of the line and `index`; as hjson counts them, the first line
  /// begins at the file's last line end. Nothing where the file has a single line.
  std::optional<std::size_t> indent_of(std::size_t index) const;

 private:
  std::u32string text_;
  std::vector<std::size_t> line_ends_;
  std::string file_;
};

/// scanstring: `at` stands on the quote and is moved behind the closing one.
std::string read_quoted(const HjsonText& text, std::size_t& at);
/// mlscanstring: `at` stands on ''' and is moved behind the closing one.
std::string read_multiline(const HjsonText& text, std::size_t& at);

}  // namespace shardscope

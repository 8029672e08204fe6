// UTF-8: decoding with all of its rules, and encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  ///< length in the text; 0: not valid UTF-8 there
};

/// The code point at the start of `text`; overlong forms, surrogates and values over U+10FFFF are
/// not valid.
CodePoint first_code_point(std::string_view text);
/// The whole text is valid.
bool is_utf8(std::string_view text);
/// "UTF-16" or "UTF-32" where a file's text is in one of them, "" of other text. It tells by a byte
/// order mark, or by the zero bytes beside an ASCII character that the text begins with.
std::string_view wide_encoding(std::string_view text);
/// Throws Error naming `file` where its text is in UTF-16 or UTF-32.
void refuse_wide_encoding(std::string_view text, std::string_view file);
void append_utf8(std::string& text, std::uint32_t code_point);

/// At most `max_bytes` of `text` for a message: cut between code points with "..." behind, control
/// characters and invalid bytes replaced by '?'.
std::string shown(std::string_view text, std::size_t max_bytes = 60);

/// The whole of `text` for a terminal or a page: control characters (U+0000 to U+001F, U+007F to
/// U+009F) as "\x1b", but for those in `kept`; invalid bytes as U+FFFD.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace shardscope

// Python's text as tokens in logical lines: as much of its grammar as configurations need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::python {

enum class TokenKind : std::uint8_t { name, number, text, formatted_text, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  ///< of a text without its quotes
  int line = 0;

  bool is(std::string_view word) const {
    return text == word && (kind == TokenKind::symbol || kind == TokenKind::name);
  }
};

/// A statement, however many lines of the file its brackets hold. The last token is `end`.
struct LogicalLine {
  int indent = 0;
  std::vector<Token> tokens;
  int line() const { return tokens.front().line; }
};

/// Throws Error with file and line where quotes or brackets stay open.
std::vector<LogicalLine> logical_lines(std::string_view text, const std::string& file);

}  // namespace shardscope::python

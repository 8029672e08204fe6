// Standard output and error: whole texts, colour where a person looks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

/// Writes to standard output; control characters other than ends of lines, tabs and a Painter's
/// colours are made visible. A reader that went away is no failure; a full disk throws Error
/// (ExitCode::outside).
void print(std::string_view text);
/// Writes a line to standard error, as well as it can be written, with what is not printable in it
/// made visible.
void print_error(std::string_view line);

enum class ColorChoice : std::uint8_t { automatic, always, never };
/// "auto", "always", "never"; throws Error naming --color.
ColorChoice parse_color(std::string_view text);

enum class Paint : std::uint8_t { plain, bold, dim, good, warning, bad };

/// Puts escape codes around text, or does not.
class Painter {
 public:
  /// For standard output: automatic is on where that is a terminal and neither NO_COLOR nor
  /// TERM=dumb is set.
  explicit Painter(ColorChoice choice);
  std::string operator()(Paint paint, std::string_view text) const;

 private:
  bool on_ = false;
};

/// Standard error is a terminal: progress may rewrite its line.
bool error_is_terminal();

}  // namespace shardscope

#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace shardscope {
namespace {

bool wants_no_color() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (no_color != nullptr && *no_color != '\0') ||
         (terminal != nullptr && std::strcmp(terminal, "dumb") == 0);
}

std::string_view code_of(Paint paint) {
  switch (paint) {
    case Paint::plain:
      return "";
    case Paint::bold:
      return "\033[1m";
    case Paint::dim:
      return "\033[2m";
    case Paint::good:
      return "\033[32m";
    case Paint::warning:
      return "\033[33m";
    case Paint::bad:
      return "\033[31m";
  }
  return "";
}

constexpr std::string_view layout = "\n\t";

/// How long the colour code (ESC [ digits m) is that `text` begins with; 0 for anything else.
std::size_t color_length(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

/// Text with colours in it, without what else a terminal would obey: names come from files.
std::string harmless(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t escape = std::min(text.find('\033', 1), text.size());
    const std::size_t color = color_length(text);
    result += text.substr(0, color);
    result += printable(text.substr(color, escape - color), layout);
    text.remove_prefix(escape);
  }
  return result;
}

bool is_harmless(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && layout.find(c) == layout.npos) || c == 0x7F;
  });
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  if (errno == EPIPE) return;
  throw Error({.where = "standard output",
               .what = std::strerror(errno),
               .way_out = "make room, or write somewhere else",
               .code = ExitCode::outside});
}

}  // namespace

void print(std::string_view text) {
  if (!is_harmless(text)) return write_out(harmless(text));
  write_out(text);
}

void print_error(std::string_view line) {
  const std::string text = printable(line, layout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

ColorChoice parse_color(std::string_view text) {
  if (text == "auto") return ColorChoice::automatic;
  if (text == "always") return ColorChoice::always;
  if (text == "never") return ColorChoice::never;
  throw Error(
      {.where = "--color", .what = fmt::format("\"{}\" is none of auto, always, never", text)});
}

Painter::Painter(ColorChoice choice)
    : on_(choice == ColorChoice::always ||
          (choice == ColorChoice::automatic && isatty(STDOUT_FILENO) != 0 && !wants_no_color())) {}

std::string Painter::operator()(Paint paint, std::string_view text) const {
  if (!on_ || paint == Paint::plain || text.empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", code_of(paint), text);
}

bool error_is_terminal() { return isatty(STDERR_FILENO) != 0; }

}  // namespace shardscope

#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

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

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  if (errno == EPIPE) return;
  throw Error({.where = "standard output",
               .what = std::strerror(errno),
               .way_out = "make room, or write somewhere else",
               .code = ExitCode::outside});
}

void print_error(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
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

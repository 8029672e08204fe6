#include "cli/progress_line.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/terminal.h"
#include "core/base/utf8.h"

namespace shardscope {

ProgressLine::ProgressLine(const OutputOptions& output)
    : shown_(error_is_terminal() && !output.quiet) {}

ProgressLine::~ProgressLine() {
  if (written_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::update(std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds pause{100};
  if (!shown_ || (written_ && now - last_ < pause)) return;
  last_ = now;
  written_ = true;
  fmt::print(stderr, "\r\033[K{}", printable(text));
  std::fflush(stderr);
}

}  // namespace shardscope

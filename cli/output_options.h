// Options of every verb about what it prints: --json, --quiet, --color.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/terminal.h"

namespace shardscope {

struct OutputOptions {
  bool json = false;
  bool quiet = false;
  std::optional<std::string> color;

  Painter painter() const;
  /// A line about what goes on, on standard error; not with --quiet.
  void note(std::string_view line) const;
};

/// One line on standard error for what had to be assumed; none for nothing.
void note_assumptions(const OutputOptions& options, const std::vector<std::string>& assumed);

void declare_output_options(Command& command, OutputOptions& options);

}  // namespace shardscope

#include "cli/output_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shardscope {

Painter OutputOptions::painter() const {
  return Painter(color ? parse_color(*color) : ColorChoice::automatic);
}

void OutputOptions::note(std::string_view line) const {
  if (!quiet) print_error(line);
}

void note_assumptions(const OutputOptions& options, const std::vector<std::string>& assumed) {
  if (!assumed.empty()) options.note(fmt::format("assumed: {}", fmt::join(assumed, ", ")));
}

void declare_output_options(Command& command, OutputOptions& options) {
  command.heading("All verbs");
  command.flag("--json", options.json, "prints one JSON object on standard output");
  command.flag("--quiet", options.quiet, "prints no progress and no notes on standard error");
  command.option("--color", options.color,
                 {"auto|always|never", "auto: colors on a terminal, unless NO_COLOR is set"});
}

}  // namespace shardscope

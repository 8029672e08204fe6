#include "cli/figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/format/atomic_file.h"

namespace shardscope {

std::string figure_title(const Summary& summary, std::string_view sides) {
  const std::string runtime = summary.runtime == "native" ? "" : summary.runtime + " ";
  return fmt::format("{}{} on {} ranks, {}", runtime, summary.strategy, summary.world, sides);
}

void write_figures(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                   const std::string& title, const RunFolder& folder) {
  create_folder(folder.figures());
  write_atomically(folder.figures() / "memory.svg", memory_figure(predicted, profiled, title));
  write_atomically(folder.figures() / "streams.svg", streams_figure(predicted, profiled, title));
}

void write_stages_figure(const StageTraces& traces, const std::string& title,
                         const RunFolder& folder) {
  if (std::max(traces.predicted.size(), traces.profiled.size()) < 2) return;
  create_folder(folder.figures());
  write_atomically(folder.figures() / "stages.svg", stages_figure(traces, title));
}

}  // namespace shardscope

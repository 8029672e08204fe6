#include "cli/finished_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/figures.h"
#include "cli/finished_stages.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "traces/chrome_reader.h"

namespace shardscope {
namespace {

/// Traces that are read to find out who came late.
constexpr int most_compared = 64;

const Trace* pointer(const std::optional<Predicted<Trace>>& trace) {
  return trace ? &trace->value : nullptr;
}
const Trace* pointer(const std::optional<Profiled<Trace>>& trace) {
  return trace ? &trace->value : nullptr;
}

}  // namespace

const Summary* FinishedRun::out_of_memory() const {
  if (predicted && predicted->value.out_of_memory) return &predicted->value;
  if (profiled && profiled->value.out_of_memory) return &profiled->value;
  return nullptr;
}

std::string FinishedRun::label() const {
  return fmt::format("{} x{}", summary().strategy, summary().world);
}

FinishedRun read_run(const RunFolder& folder) {
  FinishedRun run{.folder = folder};
  if (is_there(folder.predicted_summary()))
    run.predicted = {read_summary(folder.predicted_summary())};
  if (is_there(folder.summary())) run.profiled = {read_summary(folder.summary())};
  if (run.predicted || run.profiled) return run;
  throw Error(
      {.where = folder.root.string(),
       .what = "is no run folder: neither summary.json nor predicted/summary.json is in it",
       .way_out = "give a folder that `shardscope train` or `shardscope simulate -o` left"});
}

RunTraces read_traces(const FinishedRun& run) {
  RunTraces traces;
  if (run.predicted && is_there(run.folder.predicted_trace())) {
    traces.predicted = {read_chrome_trace(run.folder.predicted_trace()).trace};
  }
  if (run.profiled && is_there(run.folder.trace(0)))
    traces.profiled = {read_chrome_trace(run.folder.trace(0)).trace};
  return traces;
}

std::optional<Differences> differences_of(const FinishedRun& run, const RunTraces& traces) {
  if (!traces.profiled) return std::nullopt;
  std::vector<Trace> ranks{traces.profiled->value};
  for (int rank = 1; rank < std::min(run.summary().world, most_compared); ++rank) {
    if (is_there(run.folder.trace(rank)))
      ranks.push_back(read_chrome_trace(run.folder.trace(rank)).trace);
  }
  return find_differences(pointer(traces.predicted), ranks);
}

void write_figures(const FinishedRun& run, const RunTraces& traces) {
  if (!traces.predicted && !traces.profiled) return;
  const char* sides = !traces.profiled    ? "predicted"
                      : !traces.predicted ? "profiled"
                                          : "predicted and profiled";
  const std::string title = figure_title(run.summary(), sides);
  write_figures({pointer(traces.predicted)}, {pointer(traces.profiled)}, title, run.folder);
  write_stages_figure(pointers(read_stages(run)), title, run.folder);
}

}  // namespace shardscope

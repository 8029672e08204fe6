#include "cli/finished_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/figures.h"
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

/// Traces of one rank of every stage, on each side where all of them are there.
struct ReadStages {
  std::vector<Trace> predicted, profiled;
};

std::vector<Trace> all_of(const std::vector<std::filesystem::path>& files) {
  std::vector<Trace> traces;
  if (!std::ranges::all_of(files, [](const auto& file) { return is_there(file); })) return traces;
  for (const std::filesystem::path& file : files)
    traces.push_back(read_chrome_trace(file).trace);
  return traces;
}

ReadStages read_stages(const FinishedRun& run) {
  if (!run.predicted || !run.predicted->value.pipeline) return {};
  const auto ranks = static_cast<int>(run.predicted->value.pipeline->ranks.size());
  std::vector<std::filesystem::path> predicted, profiled;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path of_stage = run.folder.predicted_stage_trace(rank);
    predicted.push_back(is_there(of_stage) ? of_stage : run.folder.predicted_trace());
    profiled.push_back(run.folder.trace(rank * run.summary().world / ranks));
  }
  // One of them is the run's own; an older folder has no other.
  const bool has_stages = std::ranges::count(predicted, run.folder.predicted_trace()) == 1;
  return {.predicted = has_stages ? all_of(predicted) : std::vector<Trace>{},
          .profiled = run.profiled ? all_of(profiled) : std::vector<Trace>{}};
}

std::vector<const Trace*> pointers(const std::vector<Trace>& traces) {
  std::vector<const Trace*> result;
  for (const Trace& trace : traces) result.push_back(&trace);
  return result;
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
  const std::string title =
      fmt::format("{} on {} ranks, {}", run.summary().strategy, run.summary().world, sides);
  write_figures({pointer(traces.predicted)}, {pointer(traces.profiled)}, title, run.folder);
  const ReadStages stages = read_stages(run);
  write_stages_figure({pointers(stages.predicted), pointers(stages.profiled)}, title, run.folder);
}

}  // namespace shardscope

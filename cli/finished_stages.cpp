#include "cli/finished_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/table.h"
#include "core/base/quantities.h"
#include "core/format/is_there.h"
#include "traces/analysis.h"
#include "traces/chrome_reader.h"

namespace shardscope {
namespace {

std::vector<Trace> traces_in(const std::vector<std::filesystem::path>& files) {
  std::vector<Trace> traces;
  if (!std::ranges::all_of(files, [](const auto& file) { return is_there(file); })) return traces;
  for (const std::filesystem::path& file : files) traces.push_back(read_chrome_trace(file).trace);
  return traces;
}

/// Over the rank's own step, which ends when its own work does.
StageFigures figures_of(const Trace& trace) {
  const std::vector<StepWindow> steps = step_windows(trace);
  const TimeWindow window = steps[steady_step(steps)].window;
  const Accounting time = account(trace, window);
  return {.compute = time.compute,
          .exposed_communication = time.exposed_communication,
          .idle = time.idle,
          .bubble_share = time.span.ns > 0 ? 1 - time.compute.seconds() / time.span.seconds() : 0,
          .peak = memory_peak(trace, window).total};
}

std::vector<StageFigures> figures_of(const Summary& predicted) {
  const double step = predicted.step_time.seconds();
  std::vector<StageFigures> figures;
  for (const StageSummary& rank : predicted.pipeline->ranks)
    figures.push_back({.compute = rank.compute,
                       .exposed_communication = rank.exposed_communication,
                       .idle = rank.idle,
                       .bubble_share = step > 0 ? 1 - rank.compute.seconds() / step : 0,
                       .peak = rank.peak});
  return figures;
}

template <class Side, class Get>
std::string cell_of(const std::optional<Side>& side, const Get& get) {
  return side ? get(side->value) : "-";
}

}  // namespace

FinishedStages read_stages(const FinishedRun& run) {
  if (!run.predicted || !run.predicted->value.pipeline) return {};
  const auto ranks = static_cast<int>(run.predicted->value.pipeline->ranks.size());
  std::vector<std::filesystem::path> predicted, profiled;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path of_stage = run.folder.predicted_stage_trace(rank);
    predicted.push_back(is_there(of_stage) ? of_stage : run.folder.predicted_trace());
    profiled.push_back(run.folder.trace(rank * run.summary().world / ranks));
  }
  // One of them is the run's own; a folder of an older version has no other.
  const bool has_stages = std::ranges::count(predicted, run.folder.predicted_trace()) == 1;
  return {.predicted = has_stages ? traces_in(predicted) : std::vector<Trace>{},
          .profiled = run.profiled ? traces_in(profiled) : std::vector<Trace>{},
          .predicted_figures =
              has_stages ? figures_of(run.predicted->value) : std::vector<StageFigures>{}};
}

StageTraces pointers(const FinishedStages& stages) {
  StageTraces result;
  for (const Trace& trace : stages.predicted) result.predicted.push_back(&trace);
  for (const Trace& trace : stages.profiled) result.profiled.push_back(&trace);
  return result;
}

std::vector<StageSides> sides_of(const FinishedStages& stages) {
  std::vector<StageSides> sides(std::max(stages.predicted_figures.size(), stages.profiled.size()));
  for (std::size_t rank = 0; rank < sides.size(); ++rank) {
    sides[rank].rank = static_cast<int>(rank);
    if (rank < stages.predicted_figures.size())
      sides[rank].predicted = {stages.predicted_figures[rank]};
    if (rank < stages.profiled.size()) sides[rank].profiled = {figures_of(stages.profiled[rank])};
  }
  return sides;
}

std::string stages_text(const std::vector<StageSides>& stages, const Painter& painter) {
  if (stages.empty()) return "";
  Table table({{"rank of the pipeline"},
               {"compute", Align::right},
               {"profiled", Align::right},
               {"bubble", Align::right},
               {"profiled", Align::right},
               {"live bytes", Align::right},
               {"profiled", Align::right}});
  const auto compute = [](const StageFigures& of) { return rounded_text(of.compute); };
  const auto bubble = [](const StageFigures& of) {
    return fmt::format("{:.1f}%", of.bubble_share * 100);
  };
  const auto peak = [](const StageFigures& of) { return rounded_text(of.peak); };
  for (const StageSides& rank : stages)
    table.row({std::to_string(rank.rank), cell_of(rank.predicted, compute),
               cell_of(rank.profiled, compute), cell_of(rank.predicted, bubble),
               cell_of(rank.profiled, bubble), cell_of(rank.predicted, peak),
               cell_of(rank.profiled, peak)});
  return "\n" + table.text(painter) +
         "\n  bubble: share of the rank's own step in which nothing computes. The predicted figure "
         "stands to the left of each \"profiled\".\n  A rank that waits for another stage is idle "
         "in the prediction and communicates in the profile: compare the bubbles, not these two.\n";
}

}  // namespace shardscope

#include "cli/compare_page.h"

#include <optional>
#include <utility>

#include "cli/compare_report.h"
#include "cli/finished_stages.h"
#include "cli/html_page.h"
#include "cli/terminal.h"
#include "traces/figure.h"

namespace shardscope {
namespace {

const Trace* pointer(const auto& side) { return side ? &side->value : nullptr; }

/// None of a run that left no trace.
std::vector<std::string> figures_of(const FinishedRun& run, const RunTraces& traces) {
  const std::string title = run.label();
  const Predicted<const Trace*> predicted{pointer(traces.predicted)};
  const Profiled<const Trace*> profiled{pointer(traces.profiled)};
  if (!predicted.value && !profiled.value) return {};
  std::vector<std::string> figures{streams_figure(predicted, profiled, title),
                                   memory_figure(predicted, profiled, title)};
  const FinishedStages stages = read_stages(run);
  if (!stages.predicted.empty() || !stages.profiled.empty())
    figures.push_back(stages_figure(pointers(stages), title));
  return figures;
}

Section section_of(const FinishedRun& run) {
  const RunTraces traces = read_traces(run);
  std::string text = run_text(run, Painter(ColorChoice::never));
  const std::optional<Differences> differences =
      run.out_of_memory() ? std::nullopt : differences_of(run, traces);
  if (differences && differences->has_prediction) text += "\nprofiled " + to_text(*differences);
  return {.heading = run.label() + ", " + run.folder.root.string(),
          .text = std::move(text),
          .figures = figures_of(run, traces)};
}

}  // namespace

std::string runs_page(const std::vector<FinishedRun>& runs) {
  const std::string title = runs.size() == 1 ? runs.front().label() + ", predicted and profiled"
                                             : "Predicted and profiled, by strategy";
  std::vector<Section> sections;
  if (runs.size() > 1)
    sections.push_back({.heading = "All runs",
                        .text = runs_text(runs, Painter(ColorChoice::never)),
                        .figures = {strategies_figure(bars_of(runs), title)}});
  for (const FinishedRun& run : runs) sections.push_back(section_of(run));
  return html_page(title, "", sections);
}

}  // namespace shardscope

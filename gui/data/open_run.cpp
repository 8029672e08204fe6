#include "gui/data/open_run.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "core/error.h"
#include "core/format/is_there.h"
#include "traces/chrome_reader.h"
#include "traces/run_folder.h"

namespace shardscope::gui {
namespace {

/// Traces of one side that are read; more ranks are named in a finding.
constexpr int most_ranks = 64;

/// Reads one trace into the side; what goes wrong is a finding.
void add_trace(Scenario& scenario, Side& side, const std::filesystem::path& path) {
  try {
    OwnTrace read = read_chrome_trace(path);
    for (const auto& [reason, count] : read.statistics.skipped)
      scenario.findings.push_back(
          {Severity::warning, path.string(), fmt::format("{} events skipped: {}", count, reason)});
    side.ranks.push_back(std::make_shared<const Trace>(std::move(read.trace)));
  } catch (const Error& error) {
    scenario.findings.push_back({Severity::error, path.string(), error.what()});
  }
}

Side predicted_side(Scenario& scenario, const RunFolder& folder) {
  Side side{.kind = SideKind::predicted, .source = folder.root / "predicted"};
  side.summary = read_summary(folder.predicted_summary());
  if (is_there(folder.predicted_trace())) add_trace(scenario, side, folder.predicted_trace());
  return side;
}

Side profiled_side(Scenario& scenario, const RunFolder& folder, const OpenOptions& options) {
  Side side{.kind = SideKind::profiled, .source = folder.root};
  side.summary = read_summary(folder.summary());
  const int world = side.summary->world;
  for (int rank = 0; rank < std::min(world, most_ranks); ++rank) {
    if (options.stop.stop_requested()) break;
    if (options.on_progress)
      options.on_progress(static_cast<double>(rank) / world, folder.trace(rank).string());
    if (is_there(folder.trace(rank))) add_trace(scenario, side, folder.trace(rank));
  }
  return side;
}

}  // namespace

bool is_run_folder(const std::filesystem::path& path) {
  const RunFolder folder{path};
  return is_there(folder.summary()) || is_there(folder.predicted_summary());
}

ScenarioPointer open_run(const std::filesystem::path& path, const OpenOptions& options) {
  const RunFolder folder{path};
  auto scenario = std::make_shared<Scenario>();
  scenario->path = path;
  if (is_there(folder.predicted_summary())) scenario->predicted = predicted_side(*scenario, folder);
  if (is_there(folder.summary())) scenario->profiled = profiled_side(*scenario, folder, options);
  if (const Summary* summary = scenario->summary())
    scenario->label = fmt::format("{} x{}", summary->strategy, summary->world);
  return scenario;
}

}  // namespace shardscope::gui

#include "gui/data/open_trace.h"

#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "gui/data/open_run.h"

namespace shardscope::gui {

namespace fs = std::filesystem;

ScenarioPointer open_own_trace(const fs::path& file) {
  auto scenario = std::make_shared<Scenario>();
  scenario->path = file;
  scenario->label = file.filename().string();
  Side side{.kind = SideKind::profiled, .source = file};
  add_own_trace(side, file, scenario->findings);
  if (side.ranks.empty()) throw Error({.where = {}, .what = scenario->findings.back().what});
  const Trace& trace = *side.ranks.front();
  side.summary = summarize(trace, {});
  side.summary->kind = trace.kind;
  side.summary->world = trace.world;
  if (trace.kind == TraceKind::predicted) {
    side.kind = SideKind::predicted;
    scenario->predicted = std::move(side);
  } else {
    scenario->profiled = std::move(side);
  }
  return scenario;
}

ScenarioPointer open_window_folder(const fs::path& folder, const OpenOptions& options) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(folder, ignored).lexically_normal();
  const RunFolder files{whole.parent_path().parent_path()};
  Scenario run{.label = files.root.filename().string(), .path = files.root};
  std::vector<Finding> findings;
  if (is_there(files.predicted_summary())) run.predicted = read_predicted(files, findings);
  if (is_there(files.summary()))
    run.profiled = Side{.kind = SideKind::profiled, .summary = read_summary(files.summary())};
  if (const Summary* summary = run.summary()) run.label = label_of(*summary);
  const ScenarioPointer window = open_window(run, folder, options);
  if (!window) throw Error({.where = folder.string(), .what = "no trace of ours is in it"});
  auto result = std::make_shared<Scenario>(*window);
  result->findings.insert(result->findings.begin(), findings.begin(), findings.end());
  return result;
}

}  // namespace shardscope::gui

// Traces of other tools as a scenario, beside what was predicted for them where that is known.
#pragma once

#include <filesystem>
#include <vector>

#include "gui/data/open_scenarios.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// A file, an archive of ranks, or a folder of files: a scenario for each run that they are ranks
/// of (traces/import/imported_runs.h). Beside a settings.json, or with a prediction in the folder's
/// own predicted/, it is laid beside that. A file of several that cannot be read is a finding;
/// throws Error where nothing can, and (ExitCode::interrupted) on a stop request.
std::vector<ScenarioPointer> open_imported(const std::filesystem::path& path,
                                           const OpenOptions& options = {});

/// The foreign traces of `imported` beside the prediction of `predicted`; takes the place of the
/// former. Throws Error where one of both is missing.
ScenarioPointer lay_beside(const Scenario& imported, const Scenario& predicted,
                           const std::stop_token& stop = {});

}  // namespace shardscope::gui

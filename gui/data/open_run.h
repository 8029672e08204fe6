// A run folder of ours as a scenario.
#pragma once

#include <filesystem>

#include "gui/data/open_scenarios.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// Does it hold a summary, predicted or profiled.
bool is_run_folder(const std::filesystem::path& path);

/// Both sides with the traces of all ranks that are there. A file that is missing, or cannot be
/// read, is a finding; throws Error where not even a summary can be read.
ScenarioPointer open_run(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace shardscope::gui

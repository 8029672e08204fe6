// Traces of ours by themselves, without their run folder.
#pragma once

#include <filesystem>

#include "gui/data/open_scenarios.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// One side with one rank, by what the trace says it is. Throws Error where it cannot be read.
ScenarioPointer open_own_trace(const std::filesystem::path& file);

/// RUN/profiles/<first>-<last> with the prediction of its run.
ScenarioPointer open_window_folder(const std::filesystem::path& folder, const OpenOptions& options);

}  // namespace shardscope::gui

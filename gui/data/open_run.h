// A run folder of ours as scenarios: the run, and its profiling windows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gui/data/open_scenarios.h"
#include "gui/data/scenario.h"
#include "traces/run_folder.h"

namespace shardscope::gui {

/// Does it hold a summary, predicted or profiled.
bool is_run_folder(const std::filesystem::path& path);
/// Is it RUN/profiles/<first>-<last>.
bool is_window_folder(const std::filesystem::path& path);

/// "full_shard x2"
std::string label_of(const Summary& summary);

/// What its summaries say, without traces, which take long to read.
ScenarioPointer open_figures(const std::filesystem::path& path);

/// Both sides with the traces of all ranks that are there. A file that is missing, or cannot be
/// read, is a finding; throws Error where not even a summary can be read.
ScenarioPointer open_run(const std::filesystem::path& path, const OpenOptions& options = {});

/// A window with the prediction of `run` and its own traces as the profiled side; null without any.
ScenarioPointer open_window(const Scenario& run, const std::filesystem::path& folder,
                            const OpenOptions& options = {});
/// All of the run's windows, the last of very many.
std::vector<ScenarioPointer> open_windows(const Scenario& run, const OpenOptions& options = {});

/// What lies in predicted/: summary, trace and buffers. What cannot be read is a finding.
Side read_predicted(const RunFolder& folder, std::vector<Finding>& findings);

/// Reads a trace of ours into the side; what goes wrong is a finding.
void add_own_trace(Side& side, const std::filesystem::path& path, std::vector<Finding>& findings);

}  // namespace shardscope::gui

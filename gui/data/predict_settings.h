// The prediction that `shardscope compare --trace` makes of a recorded run's settings.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "gui/data/open_scenarios.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

/// Runs the program `shardscope`, which knows how, on the settings.json of a run and one of its
/// traces. Where it is not there or fails, the reason is a finding and there is no side.
std::optional<Side> predict_settings(const std::filesystem::path& settings,
                                     const std::filesystem::path& trace,
                                     std::vector<Finding>& findings, const OpenOptions& options);

}  // namespace shardscope::gui

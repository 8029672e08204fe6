// Opens what people have: run folders, traces of other tools, folders of either.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

struct OpenOptions {
  std::stop_token stop = {};
  /// `share` of the work of one path that is done, 0 to 1, and what is being read. Called from any
  /// thread, one call at a time.
  std::function<void(double share, const std::string& what)> on_progress = {};
  /// What is known before traces are read, which takes long: `is_being_read`.
  std::function<void(const std::vector<ScenarioPointer>&)> on_figures = {};
};

/// The scenarios of `path`. Throws Error naming the file where there is nothing to show; what went
/// wrong with a part is a finding of its scenario. On a stop request what is complete is returned.
std::vector<ScenarioPointer> open_scenarios(const std::filesystem::path& path,
                                            const OpenOptions& options = {});

}  // namespace shardscope::gui

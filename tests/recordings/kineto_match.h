// Traces of a training beside what is predicted from the settings that were recorded with them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope::recordings {

/// The first step, unit or collective that has no counterpart, or is called otherwise than in
/// "units" of settings.json; empty where there is none.
std::string match_difference(const std::filesystem::path& settings,
                             const std::vector<ImportedTrace>& traces);

}  // namespace shardscope::recordings

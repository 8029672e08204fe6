// shardscope report --folded: where time or memory went, as folded stacks for flame graphs.
#pragma once

#include <filesystem>
#include <string>

#include "traces/import/import.h"

namespace shardscope {

/// Device time of the typical step of each trace in nanoseconds, by phase, module and operation; of
/// snapshots alone, bytes at each device's peak by category and frames. Of several ranks or devices
/// each has its own first frame. `from`: where `imported` was read. Throws Error where there is
/// nothing to fold.
std::string folded_report(const Imported& imported, const std::filesystem::path& from);

}  // namespace shardscope

// The ranks of traces that were read: ours with all that we write, of others what devices did.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/trace.h"

namespace shardscope {

/// Traces that we wrote come back whole, with memory and launches; of others, what their devices
/// or hosts did. `from`: the file or folder that `traces` were read from. Ranks are told apart.
std::vector<Trace> whole_traces(const std::filesystem::path& from,
                                const std::vector<ImportedTrace>& traces);

/// The trace with all that we wrote; none: another tool wrote it.
std::optional<Trace> own_trace(const std::filesystem::path& from, const ImportedTrace& trace);

}  // namespace shardscope

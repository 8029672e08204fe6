// Reading what other programs recorded, with progress on a terminal and Ctrl-C as a way out.
#pragma once

#include <filesystem>
#include <vector>

#include "cli/output_options.h"
#include "traces/import/import.h"

namespace shardscope {

/// Reads every file, archive or folder into one. One of several that cannot be read is left out as
/// one of a folder is, unless it is not there, or nothing else was found. A line of progress stands
/// on standard error where that is a terminal. Ctrl-C while it reads: Error
/// (ExitCode::interrupted), and nothing was left.
Imported read_traces(const std::vector<std::filesystem::path>& files, const OutputOptions& output);

/// Throws Error where what was read of `from` has neither events nor memory.
void require_events(const Imported& imported, const std::filesystem::path& from);

/// Says so where the traces are not ranks of one run.
void note_several_runs(const Imported& imported, const OutputOptions& output);

}  // namespace shardscope

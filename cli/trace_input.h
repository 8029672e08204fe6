// Reading what other programs recorded, with progress on a terminal and Ctrl-C as a way out.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output_options.h"
#include "core/base/quantities.h"
#include "traces/import/import.h"

namespace shardscope {

/// What reading traces, and what is made of them, may take.
struct TraceMemory {
  Bytes most = 1_GiB;     ///< of this process (--memory)
  bool converts = false;  ///< the traces become spans of our own, too
};
void declare_memory_option(Command& command, std::optional<std::string>& memory);
/// Of --memory; throws Error where it is no amount of at least 32 MiB.
Bytes trace_memory(const std::optional<std::string>& memory);

/// Reads every file, archive or folder into one. Throws Error before a file's events take more
/// memory than `memory` allows. One of several that cannot be read is left out as one of a folder
/// is, unless it is not there, or nothing else was found. A line of progress stands on standard
/// error where that is a terminal. Ctrl-C while it reads: Error (ExitCode::interrupted), and
/// nothing was left.
Imported read_traces(const std::vector<std::filesystem::path>& files, const OutputOptions& output,
                     TraceMemory memory = {});

/// Throws Error where what was read of `from` has neither events nor memory.
void require_events(const Imported& imported, const std::filesystem::path& from);

/// "2 runs (a.json, other.json)" where the traces are not ranks of one run, else "".
std::string several_runs_text(const Imported& imported);
/// Throws Error where the traces of `from` are not ranks of one run: figures of unrelated ones
/// beside each other would be waits and stragglers that never were.
void refuse_several_runs(const Imported& imported, const std::filesystem::path& from);

}  // namespace shardscope

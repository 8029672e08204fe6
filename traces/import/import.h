// Opens the traces people have: a file, an archive of ranks, or a folder of them.
#pragma once

#include <filesystem>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/import/kineto_reader.h"

namespace shardscope {

/// All traces in `path`, by rank, those without one behind, by name: a file (Chrome JSON, gzip or
/// plain), a tar archive of such files, or a folder of both, whose other files are left alone.
/// Throws Error for a file that is no trace, or where none is found, and before reading one whose
/// size foretells more memory than the machine has free (ExitCode::outside).
std::vector<ImportedTrace> import_traces(const std::filesystem::path& path,
                                         const ImportOptions& options = {});

/// Memory that a trace file of this size will take once it is read: 60 bytes for each event of 220
/// bytes of text, which gzip makes 18 times smaller.
Bytes foreseen_memory(Bytes file, bool is_gzip);

}  // namespace shardscope

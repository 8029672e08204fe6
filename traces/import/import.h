// Opens the traces people have: a file, an archive of ranks, or a folder of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/file_format.h"
#include "traces/import/imported_trace.h"
#include "traces/import/kineto_reader.h"
#include "traces/import/memory_snapshot.h"
#include "traces/import/memory_timeline.h"

namespace shardscope {

/// Everything that was found.
struct Imported {
  std::vector<ImportedTrace> traces;  ///< by rank, those without one behind, by name
  std::vector<MemorySnapshot> snapshots;
  std::vector<MemoryTimeline> timelines;
  /// Files of a folder or an archive that looked like one of these by name or content and were not
  /// read, with the reason; but not the other files of a run folder.
  std::vector<std::string> left_out;
};

/// Reads `path`: a file, gzip or plain, whose format its first bytes tell (Chrome JSON, an SQLite
/// export of Nsight Systems, a memory snapshot, a memory timeline), a tar archive of such files, or
/// a folder of both. Throws Error for a file that is none, or
/// where none is found, and before reading one whose size foretells more memory than the machine
/// has free, or once nine tenths of that are taken (ExitCode::outside).
Imported import_files(const std::filesystem::path& path, const ImportOptions& options = {});

/// The same where only traces will do.
std::vector<ImportedTrace> import_traces(const std::filesystem::path& path,
                                         const ImportOptions& options = {});

/// Memory that a file of this size will take once it is read. Of a trace 60 bytes for each event of
/// 220 bytes of text, which gzip makes 18 times smaller; of a snapshot 4 times the pickle, which
/// gzip makes 12 times smaller; of a memory timeline half its text, 10 times smaller in gzip; of an
/// Nsight export, as much as the file.
Bytes foreseen_memory(Bytes file, FileFormat format, bool is_gzip);

}  // namespace shardscope

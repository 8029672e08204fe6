// Reads the SQLite exports of Nsight Systems.
#pragma once

#include <filesystem>
#include <string>

#include "traces/import/imported_trace.h"
#include "traces/import/kineto_reader.h"

namespace shardscope {

/// Reads what `nsys export --type sqlite` wrote (schema 3.x): kernels, copies and memsets on the
/// streams of their process, context and device; calls of CUDA's runtime and NVTX ranges on their
/// threads. Times are Nsight's own; base_ns is the session's start. A range's name ends where
/// emit_nvtx writes its number (", op_id = 7"), the whole is the event's text. The header has
/// EXPORT_SCHEMA_VERSION and the rows of each table of activities. Tables that are not read are
/// remarked in the report. Throws Error for a file that has none of them.
ImportedTrace read_nsight(const std::filesystem::path& path, const std::string& file,
                          const ImportOptions& options);

}  // namespace shardscope

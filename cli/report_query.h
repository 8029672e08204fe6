// shardscope report --sql: a query over what a run or a trace holds.
#pragma once

#include <filesystem>
#include <string>

#include "cli/output_options.h"
#include "core/base/error.h"

namespace shardscope {

/// Reads both sides of a run folder, or the traces and snapshots of other tools, and prints the
/// rows that `sql` asks for.
ExitCode report_query(const std::filesystem::path& path, const std::string& sql,
                      const OutputOptions& output);

}  // namespace shardscope

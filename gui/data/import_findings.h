// What should be known of how foreign files were read.
#pragma once

#include <string>
#include <vector>

#include "gui/data/scenario.h"
#include "traces/import/import.h"
#include "traces/import/memory_report.h"

namespace shardscope::gui {

/// Format, events read and kept, size, what was skipped by reason, odd or guessed.
void add_import_findings(const ImportReport& report, const std::string& file,
                         std::vector<Finding>& findings);

/// Of every file, with ranks, time base, tracks whose events overlap, the share of memory whose
/// category nobody could tell, and the files that were left out.
std::vector<Finding> import_findings(const Imported& imported,
                                     const std::vector<MemoryReport>& memory);

}  // namespace shardscope::gui

// A traced run beside its prediction, as text and as JSON.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "cli/traced_run.h"

namespace shardscope {

/// What matched and how sure it is, what did not, times by category and unit, memory.
std::string traced_run_text(const TracedRun& run, const Painter& painter);

/// `compare --trace --json` (docs/cli.md).
std::string traced_run_json(const TracedRun& run);

}  // namespace shardscope

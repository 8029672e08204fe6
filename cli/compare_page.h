// Runs side by side as one page, for people without the program.
#pragma once

#include <string>
#include <vector>

#include "cli/finished_run.h"

namespace shardscope {

/// The table of all runs, and of each its comparison, where it differs most, streams and memory.
std::string runs_page(const std::vector<FinishedRun>& runs);

}  // namespace shardscope

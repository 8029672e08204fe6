// The phases of a run as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "sim/planner/phases.h"
#include "traces/summary.h"

namespace shardscope {

/// A table of all phases, the training among them, and the highest one.
std::string phases_text(const std::vector<planner::PhaseMemory>& phases, const Summary& training,
                        const Painter& painter);

/// The summary's JSON with the key `phases`.
std::string with_phases(const std::string& summary_json,
                        const std::vector<planner::PhaseMemory>& phases, const Summary& training);

/// Whether every phase fits.
bool all_fit(const std::vector<planner::PhaseMemory>& phases);

}  // namespace shardscope

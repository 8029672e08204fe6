// Runs side by side, as a table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/finished_run.h"
#include "cli/terminal.h"
#include "traces/figure.h"

namespace shardscope {

/// One run in full, or where it ran out of memory.
std::string run_text(const FinishedRun& run, const Painter& painter);

/// A row a run: predicted and profiled peak and step time with errors, exposed communication,
/// tokens per second; what the columns mean below, and which runs are out of memory.
std::string runs_text(const std::vector<FinishedRun>& runs, const Painter& painter);

/// `compare --json` (docs/cli.md); reads the traces of runs that have both.
std::string runs_json(const std::vector<FinishedRun>& runs);

/// What the strategies' picture needs of each run.
std::vector<StrategyBars> bars_of(const std::vector<FinishedRun>& runs);

/// The largest |error| of step time and peak over all runs; none where no run has both sides.
std::optional<double> worst_error(const std::vector<FinishedRun>& runs);

}  // namespace shardscope

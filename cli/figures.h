// The pictures of a run folder.
#pragma once

#include <string>

#include "core/base/side_by_side.h"
#include "traces/figure.h"
#include "traces/run_folder.h"
#include "traces/trace.h"

namespace shardscope {

/// Writes figures/memory.svg and figures/streams.svg of whichever sides there are.
void write_figures(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                   const std::string& title, const RunFolder& folder);

/// Writes figures/stages.svg where a side has more than one rank of a pipeline.
void write_stages_figure(const StageTraces& traces, const std::string& title,
                         const RunFolder& folder);

}  // namespace shardscope

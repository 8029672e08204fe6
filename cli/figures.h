// The pictures of a run folder.
#pragma once

#include <string>
#include <string_view>

#include "core/base/side_by_side.h"
#include "traces/figure.h"
#include "traces/run_folder.h"
#include "traces/summary.h"
#include "traces/trace.h"

namespace shardscope {

/// "megatron distributed optimizer on 64 ranks, predicted"; of the native runtime its strategy
/// alone. `sides`: "predicted", "profiled", "predicted and profiled".
std::string figure_title(const Summary& summary, std::string_view sides);

/// Writes figures/memory.svg and figures/streams.svg of whichever sides there are.
void write_figures(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                   const std::string& title, const RunFolder& folder);

/// Writes figures/stages.svg where a side has more than one rank of a pipeline.
void write_stages_figure(const StageTraces& traces, const std::string& title,
                         const RunFolder& folder);

}  // namespace shardscope

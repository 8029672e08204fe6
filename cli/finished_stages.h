// The stages of a pipeline in a run folder: one rank of each, predicted and profiled.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/finished_run.h"
#include "cli/terminal.h"
#include "core/base/side_by_side.h"
#include "traces/figure.h"
#include "traces/trace.h"

namespace shardscope {

/// One side of a rank's steady step.
struct StageFigures {
  Duration compute, exposed_communication, idle;
  /// What is not compute, of the step: a receive that waits for its peer may count as idle or as
  /// communication.
  double bubble_share = 0;
  Bytes peak;  ///< live bytes
};

/// Traces of one rank of every stage; a side is empty where one of them is not there.
struct FinishedStages {
  std::vector<Trace> predicted, profiled;
  /// As the prediction's summary has them: a trace of PyTorch's runtimes has memory by the host's
  /// clock, which is ahead of the step.
  std::vector<StageFigures> predicted_figures;
};
/// Of a run without a pipeline none.
FinishedStages read_stages(const FinishedRun& run);
StageTraces pointers(const FinishedStages& stages);

/// One rank of the pipeline; a side without traces is absent.
struct StageSides {
  int rank = 0;
  std::optional<Predicted<StageFigures>> predicted;
  std::optional<Profiled<StageFigures>> profiled;
};
std::vector<StageSides> sides_of(const FinishedStages& stages);

/// A row a rank of the pipeline; "" where there is none.
std::string stages_text(const std::vector<StageSides>& stages, const Painter& painter);

}  // namespace shardscope

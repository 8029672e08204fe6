// A prediction beside what other programs logged of the run: TensorBoard, Weights & Biases,
// nvidia-smi, Slurm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "core/base/side_by_side.h"
#include "traces/measured/measured_run.h"
#include "traces/summary.h"

namespace shardscope {

/// One figure of memory on both sides; nothing is predicted of the host's.
struct MemoryBeside {
  MeasuredMemory measured;
  std::optional<Bytes> predicted;
};

struct MeasuredComparison {
  std::string run;  ///< folder of the prediction
  Summary predicted;
  std::vector<MetricLog> logs;
  MeasuredRun measured;
  std::vector<MemoryBeside> memory;
};

/// Reads the prediction of a run folder, and the logs. Throws Error naming option or file.
MeasuredComparison compare_measured(const std::string& run, const std::vector<std::string>& files);

std::string measured_text(const MeasuredComparison& comparison, const Painter& painter);
/// docs/cli.md
std::string measured_json(const MeasuredComparison& comparison);

/// The largest |error| of step time and a device's memory; none where nothing has both sides.
std::optional<double> worst_error(const MeasuredComparison& comparison);

}  // namespace shardscope

// A run folder read back: what was predicted and what was measured.
#pragma once

#include <optional>
#include <string>

#include "core/base/side_by_side.h"
#include "traces/compare.h"
#include "traces/differences.h"
#include "traces/run_folder.h"
#include "traces/summary.h"
#include "traces/trace.h"

namespace shardscope {

struct FinishedRun {
  RunFolder folder;
  std::optional<Predicted<Summary>> predicted;
  std::optional<Profiled<Summary>> profiled;

  /// The profiled summary, else the predicted one.
  const Summary& summary() const { return profiled ? profiled->value : predicted->value; }
  /// The side that ran out of memory, whose times are none; null where neither did.
  const Summary* out_of_memory() const;
  /// "full_shard x2"
  std::string label() const;
};

/// Throws Error where the folder holds neither a summary.json nor a predicted/summary.json.
FinishedRun read_run(const RunFolder& folder);

/// Both traces of a run; rank 0's, as ranks are symmetric.
struct RunTraces {
  std::optional<Predicted<Trace>> predicted;
  std::optional<Profiled<Trace>> profiled;
};
RunTraces read_traces(const FinishedRun& run);

/// Where the run differs from its prediction; the traces of its other ranks say who came late. None
/// where nothing was profiled.
std::optional<Differences> differences_of(const FinishedRun& run, const RunTraces& traces);

/// Writes the run's pictures into its own figures/.
void write_figures(const FinishedRun& run, const RunTraces& traces);

/// (predicted - profiled) / profiled of one figure; none where a side is absent or ran out of
/// memory, or nothing was measured.
template <class Get>
auto error_of(const FinishedRun& run, const Get& get) -> std::optional<double> {
  if (!run.predicted || !run.profiled || run.out_of_memory()) return std::nullopt;
  using Value = std::decay_t<decltype(get(run.predicted->value))>;
  return error_share(SideBySide<Value>{{get(run.predicted->value)}, {get(run.profiled->value)}});
}

}  // namespace shardscope

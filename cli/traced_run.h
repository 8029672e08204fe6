// A PyTorch run that was traced, and what was predicted for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/output_options.h"
#include "core/base/side_by_side.h"
#include "core/schedule/strategy.h"
#include "sim/prediction/prediction.h"
#include "traces/import/import.h"
#include "traces/match/match_errors.h"
#include "traces/match/memory_match.h"

namespace shardscope {

struct TracedRunQuestion {
  std::optional<std::string> predicted;  ///< run folder or settings.json; else one beside a trace
  std::vector<std::string> traces;       ///< files, archives, folders
  std::optional<std::string> cluster;
  bool keeps_prediction = false;  ///< wanted as TracedRun::made
};

/// One rank's trace, laid beside its prediction.
struct TracedRank {
  ImportedTrace trace;
  std::size_t prediction = 0;  ///< index into TracedRun::predictions
  RankMatch match;
  std::optional<MemoryErrors> memory;
};

struct TracedRun {
  std::string label;   ///< "fsdp1 full_shard x2"
  std::string source;  ///< of the prediction: "runs/a", "settings.json on h100_sxm"
  int world = 1;
  std::optional<Runtime> runtime = Runtime::native;  ///< none: a recording, of whichever
  std::vector<std::string> assumed;
  std::vector<std::string> left_out;  ///< files that were no traces, with the reason
  std::vector<Trace> predictions;     ///< one a rank, or one for all
  std::optional<Prediction> made;     ///< of the first rank, from a settings.json
  std::vector<TracedRank> ranks;
  MatchErrors errors;
  /// "times of h100_sxm beside those of a CPU"; "" where both are of a GPU, or both of a CPU.
  std::string times_beside;

  bool complete() const;
  bool times_comparable() const { return times_beside.empty(); }
  const Trace& predicted(const TracedRank& rank) const { return predictions[rank.prediction]; }
};

/// Reads the traces, finds or makes the prediction, and matches. Throws Error naming option or
/// file.
TracedRun read_traced_run(const TracedRunQuestion& question, const OutputOptions& output);

/// The largest |error| of step time, where times are comparable, and memory; none where nothing was
/// measured.
std::optional<double> worst_error(const TracedRun& run);

}  // namespace shardscope

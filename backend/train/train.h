// A rank's life in a training job.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "backend/rendezvous/environment.h"
#include "backend/train/checkpointer.h"
#include "core/base/error.h"
#include "core/base/quantities.h"
#include "core/native/job.h"

namespace shardscope {

struct TrainOptions {
  bool quiet = false;             ///< no progress
  bool results_in_files = false;  ///< what windows show is not told besides
  /// Of training at a window's end, for the results of the window before; then this one is left
  /// out.
  std::chrono::milliseconds longest_stall{1000};
  /// What is known of the machine, for the share of its peak and whether the run fits.
  FlopRate peak;                       ///< of one device; 0: not known
  std::optional<Bytes> device_memory;  ///< of one device
  std::vector<std::string> assumed;    ///< what nobody said, for the summary
  std::optional<ResumeChoice> resume;  ///< where the run goes on; else it starts
};

/// Trains as one rank of the job and fills the run folder `job.output` (docs/cli.md): job.json,
/// metrics.jsonl, summary.json and the model by rank 0, a trace by every rank. Returns `done`, or
/// `interrupted` after SIGINT or SIGTERM, which end the run after the step in hand with everything
/// saved. A run that resumes keeps the lines of metrics.jsonl up to its checkpoint. Throws Error,
/// or returns its code where another rank or the launcher prints it.
ExitCode train(const Job& job, const Environment& environment, const TrainOptions& options = {});

}  // namespace shardscope

// A rank's life in a training job.
#pragma once

#include <filesystem>

#include "backend/launch/environment.h"
#include "core/config/job.h"
#include "core/error.h"

namespace shardscope {

struct TrainOptions {
  bool quiet = false;                      ///< no progress
  std::filesystem::path hardware_profile;  ///< copied into the run folder; empty: none
};

/// Trains as one rank of the job and fills the run folder `job.output` (docs/cli.md): job.json,
/// metrics.jsonl, summary.json and the model by rank 0, a trace by every rank. Returns `done`, or
/// `interrupted` after SIGINT or SIGTERM, which end the run after the step in hand with everything
/// saved. Throws Error.
ExitCode train(const Job& job, const Environment& environment, const TrainOptions& options = {});

}  // namespace shardscope

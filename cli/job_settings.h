// What a job says of a prediction beside its training: runtime, cluster, options of PyTorch's
// runtimes. `simulate` takes them from a job and leaves them in one.
#pragma once

#include <optional>
#include <string>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "cli/pytorch_options.h"
#include "cli/sharding_options.h"
#include "sim/planner/choice.h"
#include "traces/run_folder.h"

namespace shardscope {

struct JobSettings {
  JobOptions& job;
  ShardingOptions& sharding;
  PytorchOptions& pytorch;
  std::optional<std::string>& cluster;
};

/// Fills what no option says. The job's runtime is not taken where an option names another or a
/// configuration file. Throws Error naming the key.
void take_settings_of_job(const JobSettings& settings);

/// Writes config.json and job.json, which leads `simulate --job` to the same prediction. `choice`:
/// of PyTorch's runtimes.
void leave_job(const RunFolder& folder, Job job, int world, const JobSettings& settings,
               const std::optional<planner::Choice>& choice);

}  // namespace shardscope

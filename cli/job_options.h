// Options about what is trained and how; each overrides a key of the job file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "core/native/job.h"

namespace shardscope {

struct JobOptions {
  std::optional<std::string> job, model;
  std::optional<std::int64_t> batch, seq, accumulate, tokens_per_batch, steps, seed;
  std::optional<std::string> optimizer;
  std::optional<double> clip;
  std::optional<std::string> runtime;  ///< ShardingOptions declares it
  std::optional<std::string> strategy, mesh, wrap, checkpointing, prefetch, precision, offload,
      memory_budget;
  std::optional<std::string> pipeline_schedule, pipeline_stages, pipeline_checkpoint;
  std::optional<std::int64_t> stages_per_rank;
};

void declare_job_options(Command& command, JobOptions& options);
/// Options about training that have one value under the native runtime.
void declare_native_training(Command& command);
/// Options that have one value in verbs that follow the native runtime's rules alone.
void declare_native_only(Command& command);

/// The job file, or a job of defaults where there is none, with what the options say. Throws Error
/// naming the option.
Job job_of(const JobOptions& options);

/// Sets `job.accumulate` so that a step of `world` ranks takes --tokens-per-batch tokens, where
/// that was given.
void apply_tokens_per_batch(const JobOptions& options, int world, Job& job);

/// What nobody said, neither an option nor a job file, and so had to be assumed: "batch 1
/// (--batch)".
std::vector<std::string> assumptions(const JobOptions& options, const Job& job);

}  // namespace shardscope

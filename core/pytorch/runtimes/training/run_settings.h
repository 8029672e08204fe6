// The settings.json that a recorder leaves beside the traces of a PyTorch run.
#pragma once

#include <string>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/strategy.h"

namespace shardscope::eager {

/// What was trained, so that it can be played again.
struct RunSettings {
  std::string name;
  shardscope::Model model;
  JsonValue config;  ///< the config.json that the model was made from
  Runtime runtime = Runtime::fsdp1;
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  std::string precision;  ///< "fp32", or that of MixedPrecision: "bf16_mixed"
  TrainingSetup setup;
};

/// The run as `rank` saw it. Keys: "case" (the arguments of the runtime, of the loop and of the
/// profiler), "strategy" (ddp, fsdp1, fsdp2), "world", "model_class", "config", "attention",
/// "batch", "seq", "micro_batches", "optimizer", "wrap" (modules that are units besides the root)
/// and "device"; what the run found out about itself ("units", "losses_of_rank0") is not read.
/// Throws Error with file, line and key.
RunSettings read_run_settings(const JsonValue& settings, int rank);

}  // namespace shardscope::eager

// What a verb is asked about PyTorch's runtimes, resolved: the model, and a training that can be
// played.
#pragma once

#include <string>
#include <vector>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "cli/pytorch_options.h"
#include "cli/sharding_options.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/strategy.h"
#include "sim/allocator/allocator_settings.h"

namespace shardscope {

struct PytorchQuestion {
  const JobOptions& job;
  const ShardingOptions& sharding;
  const PytorchOptions& pytorch;
  const PlaceOptions& place;
  GpuKind gpu;
};

struct PytorchScenario {
  Job job;
  Model model;
  JsonValue config;  ///< the config.json that it was made from
  eager::TrainingSetup setup;
  Runtime runtime = Runtime::fsdp1;
  std::string strategy;   ///< "full_shard"
  std::string precision;  ///< "bf16_mixed"
  std::string mesh;
  AllocatorSettings allocator;
  std::vector<std::string> assumed;
};

/// Throws Error naming option, key or file: what the real libraries refuse, and what is not
/// modelled.
PytorchScenario resolve_pytorch_scenario(const PytorchQuestion& question);

}  // namespace shardscope

// Small trainings under PyTorch's runtimes, recorded as schedules.
#pragma once

#include <string>

#include "core/runtime/recorded_schedule.h"

namespace shardscope::testing {

/// A Llama of three blocks with vocabulary 256 and width 64, two sequences of 32 tokens.
Schedule recorded_llama(const eager::TrainingSetup& setup);

/// Full FSDP1 over four ranks, a unit a block.
eager::TrainingSetup fsdp1_setup(ShardingStrategy strategy = ShardingStrategy::full_shard);

/// DistributedDataParallel over two ranks, in two buckets at least.
eager::TrainingSetup ddp_setup();

/// The model alone.
eager::TrainingSetup plain_setup();

/// Of "plain", "ddp" or "fsdp1".
eager::TrainingSetup setup_of(const std::string& runtime);

}  // namespace shardscope::testing

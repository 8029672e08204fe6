// Small trainings under PyTorch's runtimes, recorded as schedules.
#pragma once

#include <string>
#include <vector>

#include "core/pytorch/runtimes/training/recorded_schedule.h"

namespace shardscope::testing {

/// A Llama of three blocks with vocabulary 256 and width 64, two sequences of 32 tokens.
Schedule recorded_llama(const eager::TrainingSetup& setup);

/// Full FSDP1 over four ranks, a unit a block.
eager::TrainingSetup fsdp1_setup(ShardingStrategy strategy = ShardingStrategy::full_shard);

/// DistributedDataParallel over two ranks, in two buckets at least.
eager::TrainingSetup ddp_setup();

/// The model alone.
eager::TrainingSetup plain_setup();

/// fully_shard over four ranks, a unit a block; bfloat16, reduced in float32.
eager::TrainingSetup fsdp2_setup();

/// DeepSpeed's engine over four ranks, bfloat16, with overlap_comm.
eager::TrainingSetup deepspeed_setup(int stage);

inline const std::vector<std::string> every_runtime{"plain", "ddp",        "fsdp1",
                                                    "fsdp2", "deepspeed2", "deepspeed3"};
/// One of `every_runtime`.
eager::TrainingSetup setup_of(const std::string& runtime);

}  // namespace shardscope::testing

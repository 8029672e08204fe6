// The least recomputation under which a step fits in a given arena.
#pragma once

#include "core/base/quantities.h"
#include "core/native/native_training.h"
#include "core/schedule/target.h"

namespace shardscope {

/// The first of these whose arena is within `training.memory_budget` on every rank of the pipeline:
/// none, selective, selective with the first 1, 2, ... blocks run again whole, full. Each runs more
/// again than the one before. Throws Error where none fits, and where `training.strategy` has
/// checkpointing of its own.
Checkpointing checkpointing_within_budget(const NativeTraining& training, const Target& target);

}  // namespace shardscope

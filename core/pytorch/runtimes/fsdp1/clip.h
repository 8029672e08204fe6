// FullyShardedDataParallel.clip_grad_norm_.
#pragma once

#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"

namespace shardscope::eager::fsdp1 {

/// Scales all gradients down to a total norm, in place; gives the norm. One all-reduce of a scalar,
/// none where no unit shards. `order`: of the norm, infinity too. Source: torch 2.15,
/// fully_sharded_data_parallel.py.
Tensor clip_grad_norm(Session& s, FullySharded& model, double order = 2);

}  // namespace shardscope::eager::fsdp1

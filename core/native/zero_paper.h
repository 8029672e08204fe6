// The closed forms of the ZeRO paper (Rajbhandari et al., 2020, arXiv:1910.02054, section 3.1 and
// figure 1): bytes of P, G and OS per rank, beside which the schedule's own accounting is laid.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/precision.h"
#include "core/base/quantities.h"
#include "core/schedule/model_states.h"
#include "core/schedule/schedule.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// Of a model of `elements` trainable parameters on one rank: with ZeRO-1 OS, with ZeRO-2 also G,
/// with ZeRO-3 also P are divided by `shards` (rounded up to whole elements). Hybrid sharding
/// divides by its shard axis only. Example: 7.5e9 elements, mixed, Adam, bfloat16 gradients, 64
/// ranks: 120 GB, 31.4, 16.6 and 1.9 GB (the paper's figure 1). The native runtime's mixed
/// precision keeps float32 gradients.
ModelStates zero_paper_states(std::int64_t elements, ShardingStrategy sharding, int shards,
                              const Optimizer& optimizer, Precision precision,
                              Dtype gradient_dtype);

/// The same of a native schedule: what its kept storage holds, unsharded copies of gathered or not
/// yet reduced units apart.
ModelStates states_of(const Schedule& schedule);

/// The share of `states_of` that is alignment and padding of the FlatParameters (bytes of no
/// parameter).
ModelStates padding_of(const Schedule& schedule);

}  // namespace shardscope

// The native runtime's schedule.
#pragma once

#include "core/model/model.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The native runtime's schedule of one rank. `strategy` is resolved. Throws Error where the model
/// has no decoder, the sequence is longer than the model allows, or a size is not positive.
Schedule native_schedule(const Model& model, const Strategy& strategy, const Workload& workload,
                         int rank, const Target& target = {});

}  // namespace shardscope

// The native runtime's schedule.
#pragma once

#include <vector>

#include "core/model/model.h"
#include "core/native/native_training.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// The native runtime's schedule of one rank. Throws Error where the model has no decoder, the
/// sequence is longer than the model allows, or a size is not positive; Refusal where PyTorch
/// refuses the pipeline.
Schedule native_schedule(const NativeTraining& training, int rank, const Target& target = {});

/// Of `rank` and its peers in the other stages of the pipeline, in order. Throws as
/// `native_schedule`.
std::vector<Schedule> native_schedules_of_stages(const NativeTraining& training, int rank,
                                                 const Target& target = {});

/// Without a pipeline. `strategy` is resolved.
Schedule native_schedule(const Model& model, const Strategy& strategy, const Workload& workload,
                         int rank, const Target& target = {});

}  // namespace shardscope

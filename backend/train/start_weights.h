// The weights that a run starts from.
#pragma once

#include "backend/executor/executor.h"
#include "core/model/model.h"
#include "core/native/job.h"

namespace shardscope {

/// Fills this rank's parameter storage: drawn by name and seed, or read from the Hugging Face
/// folder `job.model`; only the elements that the rank keeps are drawn or read. Throws Error for a
/// weight that is missing or has another shape.
void load_start_weights(const Job& job, const Model& model, const Executor& executor);

}  // namespace shardscope

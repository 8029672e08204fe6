// What a pipeline of torchtitan is expected to take, from what its stages take, without a recording
// of it.
#pragma once

#include "sim/planner/trial.h"

namespace shardscope::planner {

/// The stages' forwards and backwards in each rank's order (sim/engine/pipeline_timeline.h), with
/// transfers, and around them the first gather, reductions and the update. Of `time` the span
/// alone is set; memory is the bound's. Gathers beside a forward are taken to overlap with it, and
/// the host is taken to keep ahead: where it does not, trials take up to twice as long.
Trial estimated_pipeline(const Choice& choice, const TrialInputs& inputs);

}  // namespace shardscope::planner

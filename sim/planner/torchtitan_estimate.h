// What a pipeline of torchtitan is expected to take, from what its stages take, without a recording
// of it.
#pragma once

#include <vector>

#include "sim/planner/trial.h"

namespace shardscope::planner {

/// The stages' forwards and backwards in each rank's order (sim/engine/pipeline_timeline.h), with
/// transfers, and around them the first gather, reductions and the update. Of `time` the span
/// alone is set. Memory is what lives at the most in that order. The stages are those of
/// sim/planner/torchtitan_probe.h.
Trial estimated_pipeline(const Choice& choice, const TrialInputs& inputs,
                         const std::stop_token& stop = {});

struct RankNeed {
  int rank = 0;
  Bytes memory;  ///< expected, with what lies outside
};
/// The ranks of the pipeline, those that are expected to need most memory first.
std::vector<RankNeed> neediest_first(const Choice& choice, const TrialInputs& inputs,
                                     const std::stop_token& stop = {});

}  // namespace shardscope::planner

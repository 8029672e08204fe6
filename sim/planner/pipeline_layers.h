// Layers of pipelines dealt out to stages by what they take on a machine.
#pragma once

#include <stop_token>
#include <vector>

#include "sim/planner/pipeline_costs.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// Layers of each stage so that `pipeline_time_bound` is least, from `layers` on
/// (`balanced_stages`). Example: eight blocks of one on two ranks under 1F1B, and a head that takes
/// two blocks' time: 5 and 3.
std::vector<int> layers_by_time(std::vector<int> layers, const PipelineSetup& setup,
                                const ModelCosts& model);

/// Behind each pipeline that has as many layers each the same one with the list that is best by
/// time, where that is neither this nor what is dealt out by work.
void add_layers_by_time(std::vector<Choice>& choices, const TrialInputs& inputs, unsigned threads,
                        const std::stop_token& stop);

}  // namespace shardscope::planner

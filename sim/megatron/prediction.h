// What is predicted of a training of Megatron-LM: a summary and a trace for one rank of every
// stage.
#pragma once

#include <string>
#include <vector>

#include "core/config/megatron/settings.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/prediction/prediction.h"

namespace shardscope {

/// By rank of the pipeline. The step time is `predicted_step`'s (sim/megatron/divided_step.h). A
/// trace has a span for each forward and backward of a micro-batch, with communication as it lies
/// beside it in the stage that was played. Memory is that of sim/megatron/stage_memory.h over this
/// order; no allocator plays, so what is reserved is what is allocated. `settings` must be checked.
/// The schedules of the predictions are empty.
std::vector<Prediction> predict_megatron(const megatron::Settings& settings,
                                         std::vector<std::string> assumed,
                                         const HardwareProfile& profile);

/// Forward and backward of the whole model without recomputation, of one rank and step: six a
/// parameter of the products and token, attention over the tokens that it sees.
Flops megatron_flops(const megatron::Settings& settings);

}  // namespace shardscope

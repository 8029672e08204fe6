// What a job says of the training that all of its choices have in common.
#pragma once

#include "core/native/job.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/choice.h"

namespace shardscope::planner {

/// Sets torch.optim's rule, and what of the job's optimizer memory and kernels depend on.
/// torch.optim.Adam has no weight decay by default, AdamW and the job have some.
void set_optimizer(const Optimizer& optimizer, eager::OptimizerRule rule,
                   eager::OptimizerSettings& settings);

/// Of the GPUs of PyTorch's runtimes where the profile does not say.
inline constexpr int usual_compute_capability = 90;

/// The job's sequences, optimizer and clipping; PyTorch's defaults for what a job does not say
/// (attention, dropout as the config has it, the loss in the model).
Training training_of(const Job& job, const HardwareProfile& profile);

}  // namespace shardscope::planner

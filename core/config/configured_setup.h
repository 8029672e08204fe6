// A training as `accelerate launch` or DeepSpeed with a configuration file sets it up.
#pragma once

#include "core/config/config_plan.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope::eager {

/// What Accelerator.prepare, or deepspeed.initialize, does with the model, and what the file says
/// of the loop: micro-batches, DeepSpeed's clipping. The rest is the caller's. `assumed` says what
/// the file asks for that is not played (memory of torch.compile). Throws Refusal where the real
/// libraries raise, and Error for settings that are not modelled, naming the key. Source:
/// accelerate 1.15.0 accelerator.py (prepare_model, _prepare_fsdp2), utils/fsdp_utils.py.
TrainingSetup configured_setup(const ConfiguredModel& model, const Workers& workers,
                               const ReadFile& read_file);

}  // namespace shardscope::eager

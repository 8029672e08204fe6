// What a training keeps in the host's memory, and what of it is not timed.
#pragma once

#include <optional>
#include <string>

#include "core/base/quantities.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope {

/// Model states of one rank in the host's memory: of FSDP parameters, gradients and optimizer
/// states; of DeepSpeed 16 bytes for each trained element of the rank's share (float32 weights,
/// gradients, two states), and 2 for each parameter where these are offloaded, too (DeepSpeed's
/// estimators, runtime/zero/stage3.py). Without staging buffers. None: nothing is offloaded.
std::optional<Bytes> host_states(const Model& model, const eager::TrainingSetup& setup);

/// What a step with offload takes beyond what is predicted, for people; empty: nothing.
std::string untimed_offload(const eager::TrainingSetup& setup);

}  // namespace shardscope

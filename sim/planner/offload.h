// What a training keeps in the host's memory, and what of it is not timed.
#pragma once

#include <optional>
#include <string>

#include "core/base/quantities.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/summary.h"

namespace shardscope::planner {

/// Model states of one rank in the host's memory: of FSDP parameters, gradients and optimizer
/// states; of DeepSpeed 16 bytes for each trained element of the rank's share (float32 weights,
/// gradients, two states), and 2 for each parameter where these are offloaded, too (DeepSpeed's
/// estimators, runtime/zero/stage3.py). Without staging buffers. None: nothing is offloaded.
std::optional<Bytes> host_states(const Model& model, const eager::TrainingSetup& setup);

/// The same of all ranks of a node; 0 where nothing is offloaded.
Bytes host_states_of_node(const Model& model, const eager::TrainingSetup& setup,
                          const HardwareProfile& profile);

/// Says in `summary` what a rank and a node keep in the host's memory, and what a step with offload
/// takes beyond what is predicted. Nothing is added where nothing is offloaded.
void add_offloaded(const Model& model, const eager::TrainingSetup& setup,
                   const HardwareProfile& profile, Summary& summary);

}  // namespace shardscope::planner

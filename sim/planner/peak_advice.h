// Which setting of a training would free what holds memory at its peak.
#pragma once

#include <string>
#include <string_view>

#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// What holds memory: buffers that are alike.
struct Holder {
  MemoryCategory category = MemoryCategory::activations;
  std::string owner;          ///< module, its numbers as "#"; "" is the root or none
  Phase phase = Phase::init;  ///< in which the buffers were allocated
};

/// The setting in the words of accelerate's file or of PyTorch, the first that applies and is not
/// in use already: "activation checkpointing (fsdp_activation_checkpointing: true)". Empty: none is
/// known.
std::string_view advice(const Holder& holder, const eager::TrainingSetup& setup);

}  // namespace shardscope

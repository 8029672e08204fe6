// Activations that wait on the host for their backward.
#pragma once

#include <memory>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

/// Hooks that move what autograd saves to the host and back, but what is smaller than 1 KiB, the
/// `parameters`, and views of them. The copies are on the stream that computes. Source: torchtune
/// 0.6, training/_activation_offloading.py, OffloadActivations, whose side stream and pinned memory
/// change times and not what is saved, and which leaves out the output layer.
std::shared_ptr<SavedTensorHooks> activation_offloading_hooks(const Tensors& parameters);

}  // namespace shardscope::eager

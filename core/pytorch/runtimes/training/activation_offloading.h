// Activations that wait on the host for their backward.
#pragma once

#include <memory>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

/// Hooks that move what autograd saves to the host and back. What is smaller than 1 KiB, the
/// `parameters` and views of them stay. The copies are on the stream that computes. Source:
/// torchtune 0.6, training/_activation_offloading.py, OffloadActivations with use_streams=False.
/// Not modelled: its side stream, which keeps the last five tensors on the device for longer
/// (max_fwd_stash_size), pinned memory, and that the input of the output layer stays.
std::shared_ptr<SavedTensorHooks> activation_offloading_hooks(const Tensors& parameters);

}  // namespace shardscope::eager

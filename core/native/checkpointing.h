// Activation checkpointing: blocks are run again in the backward instead of keeping what they
// saved.
#pragma once

#include "core/native/operator_graph.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// A block that is run again keeps only its input; before its backward its forward operators run
/// again (all but the one that makes its output, which nothing needs twice) on values of their own.
/// Of a selective block the outputs of products and attention are kept, with what is done in place
/// on them; the rest runs again.
void checkpoint_blocks(const Checkpointing& checkpointing, OperatorGraph& graph);

/// Runs the whole forward of a rank with one stage again before the loss and the backward of its
/// first `micro_batches`, except for the operator that makes what is sent on. These micro-batches
/// keep what the stage receives, and no activations.
void checkpoint_stage(int micro_batches, OperatorGraph& graph);

}  // namespace shardscope

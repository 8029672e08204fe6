// Activation checkpointing: blocks are run again in the backward instead of keeping what they
// saved.
#pragma once

#include "core/native/operator_graph.h"

namespace shardscope {

/// Every block keeps only its input; before its backward its forward operators run again (all but
/// the one that makes its output, which nothing needs twice) on values of their own.
void checkpoint_blocks(OperatorGraph& graph);

}  // namespace shardscope

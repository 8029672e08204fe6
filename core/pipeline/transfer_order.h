// Sends and receives of a rank that does one after the other, each until its peer has come to it.
#pragma once

#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"

namespace shardscope {

/// The forwards and backwards of every rank with its sends and receives, in the order in which they
/// come where a forward takes one unit of time and a backward two. All ranks go by one order of all
/// transfers, so that they never wait for each other. A send follows its forward or backward; a
/// receive is begun before the one in whose course it comes. Throws Refusal as PyTorch does.
std::vector<ActionOrder> transfer_orders(const PipelineSetup& setup);

}  // namespace shardscope

// The order of a rank's forwards and backwards under each schedule, idle places included.
#pragma once

#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"

namespace shardscope {

/// Of every rank. Those of GPipe and 1F1B are what PyTorch runs, without idle places.
std::vector<ActionOrder> compute_orders(const PipelineSetup& setup);

/// One file each.
ActionOrder interleaved_order(const PipelineSetup& setup, int rank);
ActionOrder zbv_order(const PipelineSetup& setup, int rank);
ActionOrder dualpipev_order(const PipelineSetup& setup, int rank);

}  // namespace shardscope

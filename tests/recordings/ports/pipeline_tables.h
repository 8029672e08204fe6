// The tables that torch.distributed.pipelining prints of a schedule.
#pragma once

#include <string>
#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"

namespace shardscope::recordings {

/// `_get_pipeline_order()` of GPipe and 1F1B, `pipeline_order` of the others. That of 1F1B is not
/// what runs on the last rank (its forwards start at micro-batch 1).
std::vector<ActionOrder> printed_orders(const PipelineSetup& setup);

/// `_format_pipeline_order`: a line for each step. Throws Refusal (IndexError) where there are
/// fewer steps than ranks, as PyTorch does.
std::vector<std::string> formatted_orders(const std::vector<ActionOrder>& orders);

}  // namespace shardscope::recordings

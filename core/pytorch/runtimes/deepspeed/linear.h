// zero3_linear_wrap: torch.nn.functional.linear under stage 3.
// Source: deepspeed 0.19.8, runtime/zero/linear.py.
#pragma once

#include "core/pytorch/engine/session.h"

namespace shardscope::eager::deepspeed {

/// LinearFunctionForZeroStage3: saves input, weight and bias themselves, so that a partitioned
/// weight is not kept by the graph.
Tensor zero3_linear(Session& s, const Tensor& input, const Tensor& weight, const Tensor& bias);

}  // namespace shardscope::eager::deepspeed

// Lowering to our fused operators.
#pragma once

#include "core/native/operator_graph.h"

namespace shardscope {

/// The forward operators of a decoder; `backward` is left empty.
OperatorGraph lower_native_forward(const Model& model, const BatchShape& shape,
                                   const std::vector<StageSegment>& stages);

}  // namespace shardscope

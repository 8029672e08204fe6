// The backward operators, derived from the forward ones.
#pragma once

#include "core/native/operator_graph.h"

namespace shardscope {

/// Fills `graph.backward` by walking `graph.forward` in reverse. Frozen parameters get no gradient,
/// and what only they would need is left out. `Kernel::accumulate` is left false: whether a
/// parameter's gradient is added to depends on the buffer it lands in, which the sharding pass
/// knows. Gradients of parameters are of `shape.dtypes.gradients`, those of activations as these.
void differentiate(OperatorGraph& graph, const Model& model, const BatchShape& shape);

}  // namespace shardscope

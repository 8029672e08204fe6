#include "core/native/operator_graph.h"

#include "core/native/backward.h"
#include "core/native/lower.h"

namespace shardscope {

OperatorGraph lower(const Model& model, const BatchShape& shape) {
  OperatorGraph graph = lower_native_forward(model, shape);
  differentiate(graph, model, shape.dtypes.gradients);
  return graph;
}

}  // namespace shardscope

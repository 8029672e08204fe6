#include "core/native/operator_graph.h"

#include "core/native/backward.h"
#include "core/native/lower.h"

namespace shardscope {

OperatorGraph lower(const Model& model, const BatchShape& shape,
                    const std::vector<StageSegment>& stages) {
  OperatorGraph graph = lower_native_forward(model, shape, stages);
  differentiate(graph, model, shape);
  return graph;
}

}  // namespace shardscope

#include "core/lower/operator_graph.h"

#include "core/lower/backward.h"
#include "core/lower/native.h"

namespace shardscope {

OperatorGraph lower(const Model& model, const BatchShape& shape, Implementation implementation) {
  switch (implementation) {
    case Implementation::native:
      break;
  }
  OperatorGraph graph = lower_native_forward(model, shape);
  differentiate(graph, model, shape.dtypes.gradients);
  return graph;
}

}  // namespace shardscope

// Backward of a pipeline's stage in two parts, for its input and for its weights. Source: torch
// 2.15, pipelining/_backward.py.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager::parallel {

/// Weights whose gradients begin at the same nodes, and what arrived there.
struct WeightGroup {
  std::vector<NodeRef> weights;  ///< AccumulateGrad
  std::vector<NodeRef>
      intermediates;               ///< the first nodes on the way to the input that lead to them
  std::vector<Tensors> gradients;  ///< of each of these
};
using WeightGroups = std::vector<std::shared_ptr<WeightGroup>>;

/// stage_backward_input: the gradient of `input`, which is also in its .grad. The graph stays, and
/// `groups` have what backward for the weights begins with.
Tensor stage_backward_input(Session& s, const Edge& output, const Tensor& gradient,
                            const Tensor& input, const Tensors& weights, WeightGroups& groups);

/// stage_backward_weight: adds to .grad of the weights. The groups let go of what they hold.
void stage_backward_weight(Session& s, const Tensors& weights, const WeightGroups& groups);

}  // namespace shardscope::eager::parallel

// The loss of logits that are split along the vocabulary: torch.distributed.tensor.parallel's
// loss_parallel. Source: torch 2.15, parallel/loss.py.
#pragma once

#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

namespace shardscope::eager::parallel {

/// torch.nn.functional.cross_entropy of a rank's logits (N, C / ranks) and class indices (N), the
/// mean. Three small all-reduces in forward, none in backward.
Tensor parallel_cross_entropy(Session& s, const MeshAxisContext& axis, const Tensor& logits,
                              const Tensor& target);

/// torchtitan's own of a rank's logits (N, C / ranks) in float32, the sum. Source: torchtitan
/// 0.3.0, components/loss.py (_LossParallelCrossEntropy).
Tensor split_cross_entropy(Session& s, const MeshAxisContext& axis, const Tensor& logits,
                           const Tensor& labels);

}  // namespace shardscope::eager::parallel

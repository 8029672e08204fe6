// torch.nn.utils.clip_grad_norm_ on FSDP2's parameters, whose gradients are DTensors.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::fsdp2 {

/// The norm of all gradients. A finite order sums over the ranks a vector of one number per
/// parameter and is complete then; the infinity norm stays partial, a number for each rank.
struct TotalNorm {
  Tensor norm;
  bool partial = false;
};

/// Clips the gradients of `parameters`, sharded over `group`; `order` may be infinite. Source:
/// torch 2.15, torch/nn/utils/clip_grad.py with DTensor's rules of norms.
TotalNorm clip_grad_norm(Session& s, const Tensors& parameters, const ProcessGroup& group,
                         double order = 2);

/// DTensor.full_tensor() of it.
Tensor full_tensor(Session& s, const TotalNorm& total, const ProcessGroup& group);

}  // namespace shardscope::eager::fsdp2

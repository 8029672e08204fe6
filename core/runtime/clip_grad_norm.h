// torch.nn.utils.clip_grad_norm_ on plain tensors.
#pragma once

#include "core/lower/pytorch/autograd.h"

namespace shardscope::eager {

/// Norm of all gradients together (order 2), by one foreach call a dtype. Source:
/// torch/nn/utils/clip_grad.py of torch 2.15.
Tensor total_norm(Session& s, const Tensors& gradients);
/// Scales the gradients down in place where the norm is too large.
void clip_with_norm(Session& s, const Tensors& gradients, const Tensor& norm);
/// Both; gives the norm.
Tensor clip_grad_norm(Session& s, const Tensors& parameters);

}  // namespace shardscope::eager

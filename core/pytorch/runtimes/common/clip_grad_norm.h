// torch.nn.utils.clip_grad_norm_ on plain tensors.
#pragma once

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

/// The norm of each gradient, by one foreach call a dtype. Source, of all here:
/// torch/nn/utils/clip_grad.py of torch 2.15.
Tensors gradient_norms(Session& s, const Tensors& gradients);
/// Norm of all gradients together (order 2).
Tensor total_norm(Session& s, const Tensors& gradients);
/// Scales the gradients down in place where the norm is too large.
void clip_with_norm(Session& s, const Tensors& gradients, const Tensor& norm);
/// Both; gives the norm.
Tensor clip_grad_norm(Session& s, const Tensors& parameters);

}  // namespace shardscope::eager

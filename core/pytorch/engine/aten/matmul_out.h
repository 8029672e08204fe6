// Matrix products into memory that is there, without autograd: what libraries' own functions call.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.mm(a, b, out=out).
void mm_out(Session& s, const Tensor& a, const Tensor& b, const Tensor& out);
/// torch.addmm(sum, a, b, out=sum).
void addmm_out(Session& s, const Tensor& sum, const Tensor& a, const Tensor& b);
/// sum.addmm_(a, b).
void addmm_(Session& s, const Tensor& sum, const Tensor& a, const Tensor& b);

}  // namespace shardscope::eager

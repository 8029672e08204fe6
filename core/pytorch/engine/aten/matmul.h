// Matrix products: linear, matmul and what they decompose to.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.linear; `bias` may be None.
Tensor linear(Session& s, Tensor input, Tensor weight, Tensor bias = {});
/// torch.matmul.
Tensor matmul(Session& s, Tensor self, Tensor other);
Tensor mm(Session& s, Tensor self, Tensor other);
Tensor mv(Session& s, Tensor self, Tensor vector);
Tensor bmm(Session& s, Tensor self, Tensor other);
Tensor addmm(Session& s, Tensor bias, Tensor a, Tensor b);
/// alpha and beta of torch.baddbmm do not change what runs in forward; 0 and 1 change backward.
struct Baddbmm {
  double beta = 1;
  double alpha = 1;
};
Tensor baddbmm(Session& s, Tensor self, Tensor a, Tensor b, Baddbmm factors = {});

}  // namespace shardscope::eager

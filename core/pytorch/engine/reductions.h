// Sums, means, norms and scans.
#pragma once

#include <optional>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

Tensor sum(Session& s, Tensor self);
/// aten.sum.dim_IntList.
Tensor sum(Session& s, Tensor self, const Dims& dims, bool keepdim = false);
Tensor mean(Session& s, Tensor self);
Tensor mean(Session& s, Tensor self, const Dims& dims, bool keepdim = false);
/// Tensor.all(), Tensor.any().
Tensor all(Session& s, Tensor self);
Tensor any(Session& s, Tensor self);
Tensor cumsum(Session& s, Tensor self, int dim, std::optional<Dtype> dtype = {});
Tensor max(Session& s, Tensor self);
Tensor min(Session& s, Tensor self);
/// torch.linalg.vector_norm of all elements.
Tensor vector_norm(Session& s, Tensor self, double order = 2, std::optional<Dtype> dtype = {});
/// torch.linalg.vector_norm over `dims`, of what requires no gradient.
Tensor vector_norm(Session& s, Tensor self, const Dims& dims);
/// at::sum_to: what is left when a broadcast is undone.
Tensor sum_to(Session& s, Tensor self, const Dims& sizes);

}  // namespace shardscope::eager

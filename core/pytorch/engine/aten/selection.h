// Sorting, the largest values, histograms.
#pragma once

#include <cstdint>
#include <utility>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.sort of indices, which require no gradient: values, positions.
std::pair<Tensor, Tensor> sort(Session& s, Tensor self);
/// torch.topk over the last dimension: values, positions.
std::pair<Tensor, Tensor> topk(Session& s, Tensor self, std::int64_t count);
/// Tensor.max(dim=-1, keepdim=True): values, positions.
std::pair<Tensor, Tensor> max_of_rows(Session& s, Tensor self);
/// torch.argmax over the last dimension.
Tensor argmax(Session& s, Tensor self);
/// torch.histc.
Tensor histc(Session& s, Tensor self, std::int64_t bins);

}  // namespace shardscope::eager

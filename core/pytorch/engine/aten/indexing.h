// Operators that read or write by indices.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// torch.nn.functional.embedding.
Tensor embedding(Session& s, Tensor weight, Tensor indices);
/// torch.gather.
Tensor gather(Session& s, Tensor self, int dim, Tensor index);
/// self[indices...]: the first dimensions, one index tensor each.
Tensor index(Session& s, Tensor self, Tensors indices);
/// self[mask]: `mask` covers the first dimensions and holds in `rows` places, which it says itself.
Tensor index_by_mask(Session& s, Tensor self, Tensor mask, std::int64_t rows);
/// Of dimension 0 with a gradient.
Tensor index_select(Session& s, Tensor self, int dim, Tensor index);
/// self[indices...] = values; `self` requires no gradient.
Tensor index_put_(Session& s, Tensor self, Tensors indices, Tensor values);
/// self.index_add_(0, index, source).
Tensor index_add_(Session& s, Tensor self, Tensor index, Tensor source);
/// self.scatter_add_(0, index, source), of what requires no gradient.
Tensor scatter_add_(Session& s, Tensor self, Tensor index, Tensor source);
/// self.scatter_(1, index, number), of what requires no gradient.
Tensor scatter_(Session& s, Tensor self, Tensor index);
/// self.scatter_(1, index, source), of a `self` that requires no gradient.
Tensor scatter_(Session& s, Tensor self, Tensor index, Tensor source);
/// torch.nonzero, whose result has as many rows as the values say.
Tensor nonzero(Session& s, Tensor self, std::int64_t rows);
/// torch.nn.functional.one_hot, which looks at the values first.
Tensor one_hot(Session& s, Tensor self, std::int64_t classes);
/// self.scatter_add(0, index, source), each sum in one order: torchtitan's operator of that name.
/// Indices are (rows, columns), all of a row the same. Source: torchtitan 0.3, ops/scatter_add.py.
Tensor deterministic_scatter_add(Session& s, Tensor self, Tensor index, Tensor source);
/// torch.repeat_interleave by a number.
Tensor repeat_interleave(Session& s, Tensor self, std::int64_t repeats, int dim);
/// torch.repeat_interleave of one dimension by a tensor of numbers, which add up to `total`.
Tensor repeat_interleave(Session& s, Tensor self, Tensor repeats, std::int64_t total);

}  // namespace shardscope::eager

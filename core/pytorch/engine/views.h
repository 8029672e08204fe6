// Operators that return views, and those of their backwards that do not.
#pragma once

#include <cstdint>
#include <limits>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/dims.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

inline constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();

/// aten.view: one -1 is inferred. Error where the strides do not allow it.
Tensor view(Session& s, Tensor self, Dims sizes);
/// aten.view where the strides allow it, else clone and _unsafe_view.
Tensor reshape(Session& s, Tensor self, Dims sizes);
/// Tensor.flatten.
Tensor flatten(Session& s, Tensor self, int first = 0, int last = -1);
Tensor unsafe_view(Session& s, Tensor self, Dims sizes);
Tensor t(Session& s, Tensor self);
Tensor transpose(Session& s, Tensor self, int a, int b);
Tensor permute(Session& s, Tensor self, Dims order);
Tensor expand(Session& s, Tensor self, Dims sizes);  ///< -1 keeps a size
Tensor unsqueeze(Session& s, Tensor self, int dim);
Tensor squeeze(Session& s, Tensor self, int dim);
/// Tensor.squeeze(): every dimension of one element goes.
Tensor squeeze(Session& s, Tensor self);
Tensor select(Session& s, Tensor self, int dim, std::int64_t index);
/// aten.slice.Tensor; `end` to_the_end as Python's open slice.
Tensor slice(Session& s, Tensor self, int dim, std::int64_t start, std::int64_t end = to_the_end,
             std::int64_t step = 1);
/// Python's tensor[..., start:end, ...]: a slice, or aten.alias where that is all of it.
Tensor indexed_slice(Session& s, Tensor self, int dim, std::int64_t start,
                     std::int64_t end = to_the_end);
/// Tensor.narrow: a slice.
Tensor narrow(Session& s, Tensor self, int dim, std::int64_t start, std::int64_t length);
Tensors split(Session& s, Tensor self, std::int64_t size, int dim);
Tensors split_with_sizes(Session& s, Tensor self, const std::vector<std::int64_t>& sizes, int dim);
/// Tensor.chunk: split.
Tensors chunk(Session& s, Tensor self, std::int64_t chunks, int dim);
Tensors unbind(Session& s, Tensor self, int dim);
Tensor as_strided(Session& s, Tensor self, const Dims& sizes, const Dims& strides,
                  std::int64_t offset);
Tensor alias(Session& s, Tensor self);
Tensor view_as(Session& s, Tensor self, const Tensor& other);
Tensor detach(Session& s, Tensor self);
/// The same without autograd, an operator only under a dispatch mode: TensorImpl's
/// shallow_copy_and_detach, as tensor_data() and make_variable() do.
Tensor shallow_detach(Session& s, const Tensor& self);
/// Tensor.view(dtype) of the same element size.
Tensor view_dtype(Session& s, Tensor self, Dtype dtype);

}  // namespace shardscope::eager

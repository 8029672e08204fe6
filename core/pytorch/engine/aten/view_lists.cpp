// Views that come as lists: split, chunk, unbind; and the backwards of single views.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/view_backward.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// split_with_sizes_backward of torch/csrc/autograd/FunctionsManual.cpp: what has no gradient is
/// zeros.
Tensor split_backward(Session& s, Tensors& gradients, const Dims& back, int dim, Like like,
                      const std::vector<std::int64_t>& lengths) {
  Tensors all = gradients;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].defined()) continue;
    Dims sizes = back;
    sizes[dim] = lengths[i];
    all[i] = zeros(s, sizes, like);
  }
  return cat(s, std::move(all), dim);
}

Tensors split_into(Session& s, const Tensor& self, std::string_view node_name, const Operator& op,
                   int dim, const std::vector<std::int64_t>& lengths) {
  const NodeRef node = make_node(s, node_name, {&self},
                                 [back = self.sizes(), dim, kind = like(self), lengths](
                                     Session& in, Node&, Tensors& gradients) -> Tensors {
                                   return {split_backward(in, gradients, back, dim, kind, lengths)};
                                 });
  Tensors parts;
  std::int64_t offset = self->layout.offset;
  for (const std::int64_t length : lengths) {
    Dims sizes = self.sizes();
    sizes[dim] = length;
    parts.push_back(alias_of(self, sizes, self.strides(), offset));
    parts.back()->is_view = true;
    offset += length * self.strides()[dim];
  }
  dispatched(s, op, {self}, parts);
  for (const Tensor& part : parts) set_history(s, part, node);
  return parts;
}

}  // namespace

Tensors split(Session& s, Tensor self, std::int64_t size, int dim) {
  static constexpr Operator op{"aten.split.Tensor", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim());
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = self.size(dim); left > 0 || lengths.empty(); left -= size)
    lengths.push_back(std::min(size, left));
  return split_into(s, self, "SplitBackward0", op, dim, lengths);
}

Tensors split_with_sizes(Session& s, Tensor self, const std::vector<std::int64_t>& sizes, int dim) {
  static constexpr Operator op{"aten.split_with_sizes.default", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim());
  return split_into(s, self, "SplitWithSizesBackward0", op, dim, sizes);
}

Tensors chunk(Session& s, Tensor self, std::int64_t chunks, int dim) {
  const std::int64_t length = self.size(dim);
  return split(s, std::move(self), (length + chunks - 1) / chunks, dim);
}

Tensors unbind(Session& s, Tensor self, int dim) {
  static constexpr Operator op{"aten.unbind.int", OperatorKind::view};
  const LetGo let_go{self};
  dim = wrap_dim(dim, self.dim());
  Dims sizes = self.sizes(), strides = self.strides();
  sizes.erase(dim);
  strides.erase(dim);
  const NodeRef node =
      make_node(s, "UnbindBackward0", {&self},
                [dim, sizes, kind = like(self)](Session& in, Node&, Tensors& gradients) -> Tensors {
                  Tensors all = gradients;
                  for (Tensor& gradient : all)
                    if (!gradient.defined()) gradient = expand(in, zeros(in, {}, kind), sizes);
                  return {stack(in, std::move(all), dim)};
                });
  Tensors parts;
  for (std::int64_t i = 0; i < self.size(dim); ++i) {
    parts.push_back(alias_of(self, sizes, strides, self->layout.offset + i * self.strides()[dim]));
    parts.back()->is_view = true;
  }
  dispatched(s, op, {self}, parts);
  for (const Tensor& part : parts) set_history(s, part, node);
  return parts;
}

Tensor select_backward(Session& s, Tensor gradient, const Dims& sizes) {
  static constexpr Operator op{"aten.select_backward.default", OperatorKind::copy};
  const LetGo let_go{gradient};
  Tensor result = allocate(s, like(gradient), sizes);
  dispatched(s, op, {&gradient}, {&result});
  return result;
}

Tensor slice_backward(Session& s, Tensor gradient, const Dims& sizes) {
  static constexpr Operator op{"aten.slice_backward.default", OperatorKind::copy};
  const LetGo let_go{gradient};
  Tensor result = allocate(s, like(gradient), sizes);
  dispatched(s, op, {&gradient}, {&result});
  return result;
}

void refuse_view(const Tensor& tensor, const Dims& sizes) {
  throw Error({.where = "view",
               .what = fmt::format("strides ({}) of shape ({}) do not allow the shape ({})",
                                   fmt::join(tensor.strides(), ", "),
                                   fmt::join(tensor.sizes(), ", "), fmt::join(sizes, ", ")),
               .way_out = {}});
}

void refuse_gradient(std::string_view what) {
  throw Error({.where = fmt::format("backward of {}", what),
               .what = "this step asks for it, and it is not modelled",
               .way_out =
                   "with an int8 base give --quantization nf4; else predict an export of the "
                   "model (docs/own_models.md)"});
}

}  // namespace shardscope::eager

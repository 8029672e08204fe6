#include "core/pytorch/engine/aten/indexing.h"

#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/view_backward.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr Operator embedding_op{"aten.embedding.default", OperatorKind::indexing};
constexpr Operator embedding_backward_op{"aten.embedding_dense_backward.default",
                                         OperatorKind::indexing};
constexpr Operator gather_op{"aten.gather.default", OperatorKind::indexing};
constexpr Operator index_op{"aten.index.Tensor", OperatorKind::indexing};
constexpr Operator index_select_op{"aten.index_select.default", OperatorKind::indexing};
constexpr Operator index_put_op{"aten.index_put.default", OperatorKind::indexing};
constexpr Operator index_put_in_place_op{"aten.index_put_.default", OperatorKind::indexing};
constexpr Operator index_put_impl_op{"aten._index_put_impl_.default", OperatorKind::indexing};
constexpr Operator index_add_op{"aten.index_add_.default", OperatorKind::indexing};
constexpr Operator scatter_add_op{"aten.scatter_add_.default", OperatorKind::indexing};
constexpr Operator deterministic_scatter_add_op{"torchtitan.deterministic_scatter_add.default",
                                                OperatorKind::indexing};
constexpr Operator repeat_op{"aten.repeat_interleave.Tensor", OperatorKind::indexing};
constexpr Operator nonzero_op{"aten.nonzero.default", OperatorKind::indexing};
constexpr Operator aminmax_op{"aten.aminmax.default", OperatorKind::reduction};
constexpr Operator scatter_value_op{"aten.scatter_.value", OperatorKind::indexing};

/// What the index tensors broadcast to, then the dimensions that are not indexed.
Dims indexed_sizes(const Tensor& self, const Tensors& indices) {
  Dims sizes;
  for (const Tensor& index : indices) sizes = broadcast(sizes, index.sizes());
  for (int i = static_cast<int>(indices.size()); i < self.dim(); ++i) sizes.push_back(self.size(i));
  return sizes;
}

Tensors with_indices(const Tensor& self, const Tensors& indices, const Tensor& values = {}) {
  Tensors all{self};
  all.insert(all.end(), indices.begin(), indices.end());
  if (values) all.push_back(values);
  return all;
}

Tensors saved_indices(Session& s, Node& node, std::int32_t count) {
  Tensors indices;
  for (std::int32_t i = 0; i < count; ++i) indices.push_back(node.saved_listed(s, "indices", i));
  return indices;
}

/// index_backward, FunctionsManual.cpp: the gradients are added into zeros, in place where nothing
/// watches.
Tensor index_backward(Session& s, const Tensor& zeros, const Tensors& indices,
                      const Tensor& gradient) {
  if (!s.settings.watched) {
    dispatched(s, index_put_impl_op, with_indices(zeros, indices, gradient), Tensors{zeros});
    return zeros;
  }
  const Tensor result = allocate_like(s, zeros, zeros.dtype());
  dispatched(s, index_put_op, with_indices(zeros, indices, gradient), Tensors{result});
  return result;
}

/// expandTensors, IndexingUtils.h: a mask becomes one index for each of its dimensions.
Tensors places_of(Session& s, const Tensor& mask, std::int64_t rows) {
  const Tensor places = nonzero(s, mask, rows);
  Tensors indices;
  for (int dim = 0; dim < mask.dim(); ++dim) indices.push_back(select(s, places, 1, dim));
  return indices;
}

}  // namespace

Tensor embedding(Session& s, Tensor weight, Tensor indices) {
  const LetGo let_go{weight, indices};
  const auto formula = [rows = weight.size(0)](Session& session, Node& node,
                                               Tensors& gradients) -> Tensors {
    const Tensor kept = node.saved(session, "indices");
    const Tensor gradient = allocate(session, like(gradients[0]), {rows, gradients[0].size(-1)});
    dispatched(session, embedding_backward_op, {&gradients[0], &kept}, {&gradient});
    return {gradient};
  };
  const NodeRef node = make_node(s, "EmbeddingBackward0", {&weight}, formula);
  if (node) node->save(s, "indices", indices);
  Dims sizes = indices.sizes();
  sizes.push_back(weight.size(1));
  const Tensor result = allocate(s, like(weight), sizes);
  dispatched(s, embedding_op, {&weight, &indices}, {&result});
  set_history(s, result, node);
  return result;
}

Tensor gather(Session& s, Tensor self, int /*dim*/, Tensor index) {
  const LetGo let_go{self, index};
  const auto formula = [sizes = self.sizes()](Session& in, Node& me,
                                              Tensors& gradients) -> Tensors {
    const Tensor kept = me.saved(in, "index");
    return {scatter_add_(in, new_zeros(in, gradients[0], sizes), kept, gradients[0])};
  };
  const NodeRef node = make_node(s, "GatherBackward0", {&self}, formula);
  if (node) {
    node->save(s, "self", self);
    node->save(s, "index", index);
  }
  const Tensor result = allocate(s, like(self), index.sizes());
  dispatched(s, gather_op, {&self, &index}, {&result});
  set_history(s, result, node);
  return result;
}

Tensor index(Session& s, Tensor self, Tensors indices) {
  const LetGo let_go{self};
  const auto formula = [sizes = self.sizes(), dtype = self.dtype(),
                        count = static_cast<std::int32_t>(indices.size())](
                           Session& session, Node& node, Tensors& gradients) -> Tensors {
    const Tensors kept = saved_indices(session, node, count);
    const Tensor zeros = new_zeros(session, gradients[0], sizes);
    return {index_backward(session, zeros, kept, gradients[0])};
  };
  const NodeRef node = make_node(s, "IndexBackward0", {&self}, formula);
  if (node)
    for (std::size_t i = 0; i < indices.size(); ++i)
      node->save_listed(s, "indices", static_cast<std::int32_t>(i), indices[i]);
  const Tensor result = allocate(s, like(self), indexed_sizes(self, indices));
  dispatched(s, index_op, with_indices(self, indices), Tensors{result});
  set_history(s, result, node);
  return result;
}

Tensor index_by_mask(Session& s, Tensor self, Tensor mask, std::int64_t rows) {
  const LetGo let_go{self, mask};
  const auto formula = [sizes = self.sizes(), rows](Session& session, Node& node,
                                                    Tensors& gradients) -> Tensors {
    const Tensor kept = node.saved(session, "indices");
    const Tensor zeros = new_zeros(session, gradients[0], sizes);
    return {index_backward(session, zeros, places_of(session, kept, rows), gradients[0])};
  };
  const NodeRef node = make_node(s, "IndexBackward0", {&self}, formula);
  if (node) node->save(s, "indices", mask);
  const Tensors indices = places_of(s, mask, rows);
  const Tensor result = allocate(s, like(self), indexed_sizes(self, indices));
  dispatched(s, index_op, with_indices(self, indices), Tensors{result});
  set_history(s, result, node);
  return result;
}

Tensor index_select(Session& s, Tensor self, int dim, Tensor index) {
  const LetGo let_go{self, index};
  const auto formula = [dim, sizes = self.sizes()](Session& in, Node& node,
                                                   Tensors& gradients) -> Tensors {
    if (dim != 0) refuse_gradient("index_select");
    const Tensor rows = node.saved(in, "index");
    return {index_add_(in, new_zeros(in, gradients[0], sizes), rows, gradients[0])};
  };
  const NodeRef node = make_node(s, "IndexSelectBackward0", {&self}, formula);
  Dims sizes = self.sizes();
  sizes[dim] = index.numel();
  const Tensor result = allocate(s, like(self), sizes);
  dispatched(s, index_select_op, {&self, &index}, {&result});
  set_history(s, result, node);
  if (node) node->save(s, "index", index);
  return result;
}

Tensor index_put_(Session& s, Tensor self, Tensors indices, Tensor values) {
  const LetGo let_go{values};
  const auto formula = [count = static_cast<std::int32_t>(indices.size())](
                           Session& in, Node& me, Tensors& gradients) -> Tensors {
    if (me.needs(0)) refuse_gradient("index_put_");
    return {Tensor(), index(in, gradients[0], saved_indices(in, me, count))};
  };
  const NodeRef node = make_node(s, "IndexPutBackward0", {&self, &values}, formula);
  if (node)
    for (std::size_t i = 0; i < indices.size(); ++i)
      node->save_listed(s, "indices", static_cast<std::int32_t>(i), indices[i]);
  ++self->version;
  dispatched(s, index_put_in_place_op, with_indices(self, indices, values), Tensors{self});
  set_history(s, self, node);
  return self;
}

Tensor index_add_(Session& s, Tensor self, Tensor index, Tensor source) {
  const LetGo let_go{index, source};
  const auto formula = [](Session& session, Node& node, Tensors& gradients) -> Tensors {
    const Tensor rows_kept = node.saved(session, "index");
    const Tensor added = node.saved(session, "source");
    return {node.needs(0) ? gradients[0] : Tensor(),
            node.needs(1)
                ? expand(session, index_select(session, gradients[0], 0, rows_kept), added.sizes())
                : Tensor()};
  };
  const NodeRef node = make_node(s, "IndexAddBackward0", {&self, &source}, formula);
  if (node) {
    node->save(s, "index", index);
    node->save(s, "source", source);
  }
  ++self->version;
  dispatched(s, index_add_op, {&self, &index, &source}, {&self});
  set_history(s, self, node);
  return self;
}

Tensor scatter_add_(Session& s, Tensor self, Tensor index, Tensor source) {
  const LetGo let_go{index, source};
  if (any_requires_grad(
          s, std::array{static_cast<const Tensor*>(&self), static_cast<const Tensor*>(&source)}))
    refuse_gradient("scatter_add_");
  ++self->version;
  dispatched(s, scatter_add_op, {&self, &index, &source}, {&self});
  return self;
}

Tensor deterministic_scatter_add(Session& s, Tensor self, Tensor index, Tensor source) {
  const LetGo let_go{self, index, source};
  const auto formula = [](Session& in, Node& me, Tensors& gradients) -> Tensors {
    const Tensor kept = me.saved(in, "index");
    Tensor of_source;
    if (me.needs(1)) of_source = gather(in, gradients[0], 0, kept);
    return {gradients[0], std::move(of_source)};
  };
  const NodeRef node =
      make_node(s, "GeneratedBackwardFor_torchtitan_deterministic_scatter_add_defaultBackward",
                {&self, &source}, formula);
  const Tensor result = allocate_like(s, self, self.dtype());
  dispatched(s, deterministic_scatter_add_op, {&self, &index, &source}, {&result});
  set_history(s, result, node);
  if (node) node->save(s, "index", index);
  return result;
}

Tensor scatter_(Session& s, Tensor self, Tensor index) {
  const LetGo let_go{index};
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)}))
    refuse_gradient("scatter_");
  ++self->version;
  dispatched(s, scatter_value_op, {&self, &index}, {&self});
  return self;
}

Tensor scatter_(Session& s, Tensor self, Tensor index, Tensor source) {
  static constexpr Operator op{"aten.scatter_.src", OperatorKind::indexing};
  const LetGo let_go{index, source};
  const auto formula = [](Session& in, Node& me, Tensors& gradients) -> Tensors {
    if (me.needs(0)) refuse_gradient("scatter_");
    return {Tensor(), gather(in, gradients[0], 1, me.saved(in, "index"))};
  };
  const NodeRef node = make_node(s, "ScatterBackward0", {&self, &source}, formula);
  if (node) node->save(s, "index", index);
  ++self->version;
  dispatched(s, op, {&self, &index, &source}, {&self});
  set_history(s, self, node);
  return self;
}

Tensor nonzero(Session& s, Tensor self, std::int64_t rows) {
  const LetGo let_go{self};
  // The kernel writes one dimension after the other.
  const Tensor result =
      allocate_strided(s, like(self, Dtype::int64), {rows, self.dim()}, {1, rows});
  dispatched(s, nonzero_op, {&self}, {&result});
  return result;
}

/// Source: ATen/native/Onehot.cpp.
Tensor one_hot(Session& s, Tensor self, std::int64_t classes) {
  const LetGo let_go{self};
  if (self.device() == Device::cpu) {
    const Tensor least = allocate(s, like(self), {});
    const Tensor most = allocate(s, like(self), {});
    dispatched(s, aminmax_op, {&self}, {&least, &most});
    item(s, least);
    item(s, most);
  }
  Dims sizes = self.sizes();
  sizes.push_back(classes);
  const Tensor result = zeros(s, sizes, like(self));
  const Tensor positions = unsqueeze(s, self, -1);
  dispatched(s, scatter_value_op, {&result, &positions}, {&result});
  return result;
}

Tensor repeat_interleave(Session& s, Tensor self, std::int64_t repeats, int dim) {
  const LetGo let_go{self};
  const int at = wrap_dim(dim, self.dim());
  Tensor repeated = unsqueeze(s, self, at + 1);
  Dims sizes = repeated.sizes();
  sizes[at + 1] = repeats;
  repeated = clone_contiguous(s, expand(s, repeated, sizes));
  Dims flat = self.sizes();
  flat[at] *= repeats;
  return view(s, repeated, flat);
}

Tensor repeat_interleave(Session& s, Tensor self, Tensor repeats, std::int64_t total) {
  const LetGo let_go{self, repeats};
  const Tensor places = allocate(s, like(repeats), {total});
  {
    const Tensor ends = cumsum(s, repeats, 0);
    dispatched(s, repeat_op, {&repeats, &ends}, {&places});
  }
  return index_select(s, self, 0, places);
}

}  // namespace shardscope::eager

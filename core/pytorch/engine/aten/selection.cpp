#include "core/pytorch/engine/aten/selection.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

constexpr Operator sort_op{"aten.sort.default", OperatorKind::other};
constexpr Operator topk_op{"aten.topk.default", OperatorKind::other};
constexpr Operator max_op{"aten.max.dim", OperatorKind::reduction};
constexpr Operator argmax_op{"aten.argmax.default", OperatorKind::reduction};
constexpr Operator histc_op{"aten.histc.default", OperatorKind::reduction};
constexpr Operator scatter_op{"aten.scatter.src", OperatorKind::indexing};
constexpr Operator scatter_in_place_op{"aten.scatter_.src", OperatorKind::indexing};

/// value_selecting_reduction_backward, FunctionsManual.cpp.
Tensor scattered(Session& s, const Tensor& gradient, const Tensor& indices, const Dims& sizes) {
  const Tensor zeros = new_zeros(s, gradient, sizes);
  if (!s.settings.watched) {
    dispatched(s, scatter_in_place_op, {&zeros, &indices, &gradient}, {&zeros});
    return zeros;
  }
  const Tensor result = allocate_like(s, zeros, zeros.dtype());
  dispatched(s, scatter_op, {&zeros, &indices, &gradient}, {&result});
  return result;
}

}  // namespace

std::pair<Tensor, Tensor> sort(Session& s, Tensor self) {
  const LetGo let_go{self};
  Tensor values = allocate_like(s, self, self.dtype());
  Tensor positions = allocate_like(s, self, Dtype::int64);
  dispatched(s, sort_op, {&self}, {&values, &positions});
  return {std::move(values), std::move(positions)};
}

namespace {

/// What an operator picks of the last dimension, which its backward scatters.
struct Pick {
  const Operator& op;
  const char* node;
  std::int64_t count;
};

std::pair<Tensor, Tensor> picked(Session& s, const Tensor& self, const Pick& pick) {
  const auto formula = [sizes = self.sizes()](Session& session, Node& node,
                                              Tensors& gradients) -> Tensors {
    const Tensor indices = node.saved(session, "indices");
    return {scattered(session, gradients[0], indices, sizes)};
  };
  const NodeRef node = make_node(s, pick.node, {&self}, formula);
  Dims sizes = self.sizes();
  sizes[-1] = pick.count;
  Tensor values = allocate(s, like(self), sizes);
  Tensor positions = allocate(s, like(self, Dtype::int64), sizes);
  dispatched(s, pick.op, {&self}, {&values, &positions});
  set_history(s, values, node);
  if (node) node->save_output(s, "indices", positions);
  return {std::move(values), std::move(positions)};
}

}  // namespace

std::pair<Tensor, Tensor> topk(Session& s, Tensor self, std::int64_t count) {
  const LetGo let_go{self};
  return picked(s, self, {topk_op, "TopkBackward0", count});
}

std::pair<Tensor, Tensor> max_of_rows(Session& s, Tensor self) {
  const LetGo let_go{self};
  return picked(s, self, {max_op, "MaxBackward0", 1});
}

Tensor argmax(Session& s, Tensor self) {
  const LetGo let_go{self};
  Dims sizes;
  for (int i = 0; i + 1 < self.dim(); ++i) sizes.push_back(self.size(i));
  const Tensor result = allocate(s, like(self, Dtype::int64), sizes);
  dispatched(s, argmax_op, {&self}, {&result});
  return result;
}

Tensor histc(Session& s, Tensor self, std::int64_t bins) {
  const LetGo let_go{self};
  const Tensor result = allocate(s, like(self), {bins});
  dispatched(s, histc_op, {&self}, {&result});
  return result;
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/aten/grouped_mm.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr Operator grouped_mm_op{"aten._grouped_mm.default", OperatorKind::matmul};
constexpr std::int64_t row_bytes = 16;

/// check_valid_strides_and_return_transposed, ATen/native/GroupedMMUtils.h.
void check_rows(const Tensor& matrix) {
  const std::int64_t row = matrix.strides()[-2], column = matrix.strides()[-1];
  const bool transposed = row == 1 && column >= std::max<std::int64_t>(1, matrix.size(-2));
  const std::int64_t bytes = (transposed ? column : row) * size_of(matrix.dtype()).count;
  if (bytes % row_bytes == 0) return;
  throw Error({.where = "grouped_mm",
               .what = fmt::format("rows of {} bytes are no multiples of {}", bytes, row_bytes),
               .way_out = "use experts: eager, or other sizes"});
}

/// (S, K) by (G, K, N): (S, N); (M, S) by (S, N) in groups of S: (G, M, N).
Dims output_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets) {
  if (b.dim() == 3) return {a.size(0), b.size(2)};
  return {offsets.size(0), a.size(0), b.size(1)};
}

Tensor run(Session& s, const Tensor& a, const Tensor& b, const Tensor& offsets) {
  check_rows(a);
  check_rows(b);
  const Dims sizes = output_sizes(a, b, offsets);
  const std::int64_t alignment = row_bytes / size_of(a.dtype()).count;
  const std::int64_t padded = (sizes[-1] + alignment - 1) / alignment * alignment;
  Dims strides{padded, 1};
  if (sizes.size() == 3) strides.insert(0, sizes[1] * padded);
  const Tensor result = allocate_strided(s, like(a), sizes, strides);
  dispatched(s, grouped_mm_op, {&a, &b, &offsets}, {&result});
  return result;
}

bool is_column_major(const Dims& sizes, const Dims& strides) {
  return strides[-2] == 1 && strides[-1] == sizes[-2];
}

/// _grouped_mm_mat2_backward, FunctionsManual.cpp.
Tensor gradient_of_other(Session& s, const Tensor& gradient, const Tensor& self,
                         const Tensor& offsets, bool column_major) {
  if (column_major)
    return transpose(s, run(s, transpose(s, gradient, -2, -1), self, offsets), -2, -1);
  return run(s, transpose(s, self, -2, -1), gradient, offsets);
}

/// _grouped_mm_mat1_backward.
Tensor gradient_of_self(Session& s, const Tensor& gradient, const Tensor& other,
                        const Tensor& offsets) {
  return run(s, gradient, transpose(s, other, -2, -1), offsets);
}

}  // namespace

Tensor grouped_mm(Session& s, Tensor self, Tensor other, Tensor offsets) {
  const LetGo let_go{self, other, offsets};
  const bool column_major = is_column_major(other.sizes(), other.strides());
  const auto formula = [column_major](Session& session, Node& node, Tensors& gradients) -> Tensors {
    const Tensor left = node.saved(session, "self");
    const Tensor right = node.saved(session, "mat2");
    const Tensor ends = node.saved(session, "offs");
    Tensor of_other, of_self;
    if (node.needs(1))
      of_other = gradient_of_other(session, gradients[0], left, ends, column_major);
    if (node.needs(0)) of_self = gradient_of_self(session, gradients[0], right, ends);
    return {std::move(of_self), std::move(of_other)};
  };
  const NodeRef node = make_node(s, "GroupedMmBackward0", {&self, &other}, formula);
  if (node) {
    if (node->needs(1)) node->save(s, "self", self);
    if (node->needs(0)) node->save(s, "mat2", other);
    node->save(s, "offs", offsets);
  }
  const Tensor result = run(s, self, other, offsets);
  set_history(s, result, node);
  return result;
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/aten/matmul.h"

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// What mm_mat1_backward and mm_mat2_backward ask of a factor: column-major ones get column-major
/// gradients.
bool is_column_major(const Tensor& matrix) {
  return matrix.strides()[0] == 1 && matrix.strides()[1] == matrix.size(0);
}

Tensor maybe_scaled(Session& s, Tensor tensor, double factor) {
  return factor == 1 ? std::move(tensor) : mul_scalar(s, std::move(tensor), factor);
}

Tensor gradient_of_first(Session& s, const Tensor& gradient, const Tensor& second,
                         bool column_major) {
  if (column_major) {
    const Tensor across = t(s, gradient);
    const Tensor product = mm(s, second, across);
    return t(s, product);
  }
  const Tensor across = t(s, second);
  return mm(s, gradient, across);
}

Tensor gradient_of_second(Session& s, const Tensor& gradient, const Tensor& first,
                          bool column_major) {
  if (column_major) {
    const Tensor across = t(s, gradient);
    const Tensor product = mm(s, across, first);
    return t(s, product);
  }
  const Tensor across = t(s, first);
  return mm(s, across, gradient);
}

/// How the factors lay in memory, which their gradients follow.
struct Majors {
  bool first;
  bool second;
};

auto mm_backward(Majors column_major) {
  return [column_major](Session& s, Node& node, Tensors& gradients) -> Tensors {
    const Tensor second = node.saved(s, "mat2");
    const Tensor first = node.saved(s, "self");
    Tensors results(2);
    if (node.needs(1)) results[1] = gradient_of_second(s, gradients[0], first, column_major.second);
    if (node.needs(0)) results[0] = gradient_of_first(s, gradients[0], second, column_major.first);
    return results;
  };
}

auto addmm_backward(Majors column_major) {
  return [column_major](Session& s, Node& node, Tensors& gradients) -> Tensors {
    const Tensor first = node.saved(s, "mat1");
    const Tensor second = node.saved(s, "mat2");
    Tensors results(3);
    if (node.needs(1)) results[1] = gradient_of_first(s, gradients[0], second, column_major.first);
    if (node.needs(2)) results[2] = gradient_of_second(s, gradients[0], first, column_major.second);
    if (node.needs(0)) results[0] = gradients[0];
    return results;
  };
}

Tensors bmm_backward(Session& s, Node& node, Tensors& gradients) {
  const Tensor second = node.saved(s, "mat2");
  const Tensor first = node.saved(s, "self");
  Tensors results(2);
  if (node.needs(1)) {
    const Tensor across = transpose(s, first, 1, 2);
    results[1] = bmm(s, across, gradients[0]);
  }
  if (node.needs(0)) {
    const Tensor across = transpose(s, second, 1, 2);
    results[0] = bmm(s, gradients[0], across);
  }
  return results;
}

auto baddbmm_backward(Baddbmm factors) {
  return [factors](Session& s, Node& node, Tensors& gradients) -> Tensors {
    const Tensor first = node.saved(s, "batch1");
    const Tensor second = node.saved(s, "batch2");
    Tensors results(3);
    if (node.needs(1)) {
      const Tensor across = transpose(s, second, 1, 2);
      results[1] = maybe_scaled(s, bmm(s, gradients[0], across), factors.alpha);
    }
    if (node.needs(2)) {
      const Tensor across = transpose(s, first, 1, 2);
      results[2] = maybe_scaled(s, bmm(s, across, gradients[0]), factors.alpha);
    }
    if (node.needs(0)) results[0] = maybe_scaled(s, gradients[0], factors.beta);
    return results;
  };
}

}  // namespace

Tensor mm(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.mm.default", OperatorKind::matmul};
  const LetGo let_go{self, other};
  other = to_lower_precision(s, other);
  self = to_lower_precision(s, self);
  const NodeRef node = make_node(s, "MmBackward0", {&self, &other},
                                 mm_backward({is_column_major(self), is_column_major(other)}));
  if (node && node->needs(0)) node->save(s, "mat2", other);
  if (node && node->needs(1)) node->save(s, "self", self);
  Tensor result = allocate(s, like(self), {self.size(0), other.size(1)});
  dispatched(s, op, {&self, &other}, {&result}, 2 * self.size(0) * self.size(1) * other.size(1));
  set_history(s, result, node);
  return result;
}

Tensor mv(Session& s, Tensor self, Tensor vector) {
  static constexpr Operator op{"aten.mv.default", OperatorKind::matmul};
  const LetGo let_go{self, vector};
  vector = to_lower_precision(s, vector);
  self = to_lower_precision(s, self);
  const NodeRef node = make_node(
      s, "MvBackward0", {&self, &vector}, [](Session& in, Node& me, Tensors& gradients) -> Tensors {
        const Tensor matrix = me.saved(in, "self");
        const Tensor factor = me.saved(in, "vec");
        Tensors results(2);
        if (me.needs(0)) {
          const Tensor column = view(in, gradients[0], {gradients[0].size(0), 1});
          results[0] = mul(in, column, factor);
        }
        if (me.needs(1)) results[1] = mv(in, t(in, matrix), gradients[0]);
        return results;
      });
  if (node && node->needs(1)) node->save(s, "self", self);
  if (node && node->needs(0)) node->save(s, "vec", vector);
  Tensor result = allocate(s, like(self), {self.size(0)});
  dispatched(s, op, {&self, &vector}, {&result});
  set_history(s, result, node);
  return result;
}

Tensor bmm(Session& s, Tensor self, Tensor other) {
  static constexpr Operator op{"aten.bmm.default", OperatorKind::matmul};
  const LetGo let_go{self, other};
  other = to_lower_precision(s, other);
  self = to_lower_precision(s, self);
  const NodeRef node = make_node(s, "BmmBackward0", {&self, &other}, bmm_backward);
  if (node && node->needs(0)) node->save(s, "mat2", other);
  if (node && node->needs(1)) node->save(s, "self", self);
  Tensor result = allocate(s, like(self), {self.size(0), self.size(1), other.size(2)});
  dispatched(s, op, {&self, &other}, {&result}, 2 * self.numel() * other.size(2));
  set_history(s, result, node);
  return result;
}

Tensor addmm(Session& s, Tensor bias, Tensor a, Tensor b) {
  static constexpr Operator op{"aten.addmm.default", OperatorKind::matmul};
  const LetGo let_go{bias, a, b};
  b = to_lower_precision(s, b);
  a = to_lower_precision(s, a);
  bias = to_lower_precision(s, bias);
  const NodeRef node = make_node(s, "AddmmBackward0", {&bias, &a, &b},
                                 addmm_backward({is_column_major(a), is_column_major(b)}));
  if (node && node->needs(2)) node->save(s, "mat1", a);
  if (node && node->needs(1)) node->save(s, "mat2", b);
  Tensor result = allocate(s, like(a), {a.size(0), b.size(1)});
  dispatched(s, op, {&bias, &a, &b}, {&result}, 2 * a.size(0) * a.size(1) * b.size(1));
  set_history(s, result, node);
  return result;
}

Tensor baddbmm(Session& s, Tensor self, Tensor a, Tensor b, Baddbmm factors) {
  static constexpr Operator op{"aten.baddbmm.default", OperatorKind::matmul};
  const LetGo let_go{self, a, b};
  b = to_lower_precision(s, b);
  a = to_lower_precision(s, a);
  self = to_lower_precision(s, self);
  const NodeRef node = make_node(s, "BaddbmmBackward0", {&self, &a, &b}, baddbmm_backward(factors));
  if (node && node->needs(2)) node->save(s, "batch1", a);
  if (node && node->needs(1)) node->save(s, "batch2", b);
  Tensor result = allocate(s, like(a), {a.size(0), a.size(1), b.size(2)});
  dispatched(s, op, {&self, &a, &b}, {&result}, 2 * a.numel() * b.size(2));
  set_history(s, result, node);
  return result;
}

namespace {

/// should_fold of aten/src/ATen/native/LinearAlgebra.cpp: whether the batch of the larger tensor
/// becomes rows of one matrix. `larger` and `smaller` as _matmul_impl has turned them.
bool should_fold(const Tensor& larger, const Tensor& smaller, bool turned_matrix) {
  if (larger.dim() < 3 || smaller.dim() > 2) return false;
  // Else the backward would sum over a batch of weight gradients.
  if (smaller.requires_grad()) return true;
  if (turned_matrix) return false;
  if (larger.numel() == 0) return true;
  for (int i = 0; i < larger.dim() - 2; ++i)
    if (larger.strides()[i] != larger.strides()[i + 1] * larger.size(i + 1)) return false;
  return true;
}

Tensor folded(Session& s, const Tensor& larger, const Tensor& smaller, bool turned) {
  Dims sizes = larger.sizes();
  sizes.erase(sizes.size() - 1);
  const std::int64_t rows = sizes.product();
  const bool by_matrix = smaller.dim() == 2;
  if (by_matrix) sizes.push_back(smaller.size(1));
  const Tensor rows_of_larger = reshape(s, larger, {rows, larger.sizes().back()});
  if (!by_matrix) return unsafe_view(s, mv(s, rows_of_larger, smaller), sizes);
  Tensor output = unsafe_view(s, mm(s, rows_of_larger, smaller), sizes);
  if (!turned) return output;
  return contiguous(s, transpose(s, std::move(output), -2, -1));
}

/// Sizes of a factor expanded to all batches.
Dims with_batch(const Dims& batch, std::int64_t rows, std::int64_t columns) {
  Dims sizes = batch;
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}

Dims batch_of(const Tensor& tensor) {
  Dims batch = tensor.sizes();
  for (int i = 0; i < 2 && !batch.empty(); ++i) batch.erase(batch.size() - 1);
  return batch;
}

Tensor batched(Session& s, const Tensor& self, const Tensor& other) {
  const bool by_vector = other.dim() == 1;
  const std::int64_t n = self.dim() > 1 ? self.size(-2) : 1;
  const std::int64_t m = self.size(-1);
  const std::int64_t p = by_vector ? 1 : other.size(-1);
  Dims sizes = broadcast(batch_of(self), by_vector ? Dims{} : batch_of(other));
  const std::int64_t batches = sizes.product();
  const Tensor first = reshape(s, expand(s, self, with_batch(sizes, n, m)), {batches, n, m});
  Tensor second;
  if (by_vector) {
    Dims expanded = sizes;
    expanded.push_back(m);
    second = unsqueeze(s, reshape(s, expand(s, other, expanded), {batches, m}), 2);
  } else {
    second = reshape(s, expand(s, other, with_batch(sizes, m, p)), {batches, m, p});
  }
  if (self.dim() > 1) sizes.push_back(n);
  if (!by_vector) sizes.push_back(p);
  Tensor product = bmm(s, first, second);
  if (by_vector) product = squeeze(s, std::move(product), -1);
  return unsafe_view(s, std::move(product), sizes);
}

/// at::native::_matmul_impl.
Tensor matmul_of(Session& s, const Tensor& self, const Tensor& other) {
  const int dims = self.dim(), other_dims = other.dim();
  if (dims == 2 && other_dims == 1) return mv(s, self, other);
  if (dims == 1 && other_dims == 2) return squeeze(s, mm(s, unsqueeze(s, self, 0), other), 0);
  if (dims == 2 && other_dims == 2) return mm(s, self, other);
  const bool turned = other_dims > dims;
  {
    const Tensor larger = turned ? transpose(s, other, -2, -1) : self;
    const Tensor smaller = !turned ? other : dims == 2 ? t(s, self) : self;
    if (!should_fold(larger, smaller, dims == 2)) return batched(s, self, other);
  }
  const Tensor larger = turned ? transpose(s, other, -2, -1) : self;
  const Tensor smaller = !turned ? other : dims == 2 ? t(s, self) : self;
  return folded(s, larger, smaller, turned);
}

}  // namespace

Tensor matmul(Session& s, Tensor self, Tensor other) {
  const LetGo let_go{self, other};
  other = to_lower_precision(s, other);
  self = to_lower_precision(s, self);
  return matmul_of(s, self, other);
}

namespace {

/// at::native::_flatten_nd_linear.
Tensor flattened_linear(Session& s, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  Dims sizes = input.sizes();
  const std::int64_t features = sizes.back();
  sizes[-1] = weight.size(0);
  const Tensor rows = reshape(s, input, {input.numel() / features, features});
  const Tensor across = t(s, weight);
  return unsafe_view(s, addmm(s, bias, rows, across), sizes);
}

}  // namespace

Tensor linear(Session& s, Tensor input, Tensor weight, Tensor bias) {
  const LetGo let_go{input, weight, bias};
  if (s.linear_replacement) return s.linear_replacement(s, input, weight, bias);
  if (bias.defined()) bias = to_lower_precision(s, bias);
  weight = to_lower_precision(s, weight);
  input = to_lower_precision(s, input);
  if (input.dim() == 2 && bias.defined()) return addmm(s, bias, input, t(s, weight));
  if (bias.defined() && bias.dim() == 1 && bias.is_contiguous() && input.is_contiguous())
    return flattened_linear(s, input, weight, bias);
  Tensor output = matmul_of(s, input, t(s, weight));
  if (!bias.defined()) return output;
  return s.settings.watched ? add(s, std::move(output), bias) : add_(s, std::move(output), bias);
}

}  // namespace shardscope::eager

// Operators that make tensors out of nothing, and those that overwrite them.
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/view_backward.h"

namespace shardscope::eager {
namespace {

Tensor made(Session& s, const Operator& op, const Dims& sizes, Like kind) {
  Tensor result = allocate(s, kind, sizes);
  dispatched(s, op, {}, {&result});
  return result;
}

Tensor made_like(Session& s, const Operator& op, const Tensor& tensor, Dtype dtype) {
  Tensor result = allocate_like(s, tensor, dtype);
  dispatched(s, op, {&tensor}, {&result});
  return result;
}

Tensor made_new(Session& s, const Operator& op, const Tensor& tensor, const Dims& sizes) {
  Tensor result = allocate(s, like(tensor), sizes);
  dispatched(s, op, {&tensor}, {&result});
  return result;
}

Tensor overwritten(Session& s, const Operator& op, Tensor self) {
  if (any_requires_grad(s, std::array{static_cast<const Tensor*>(&self)})) refuse_gradient(op.name);
  ++self->version;
  dispatched(s, op, {&self}, {&self});
  return self;
}

}  // namespace

Tensor empty(Session& s, const Dims& sizes, Like kind) {
  static constexpr Operator op{"aten.empty.memory_format", OperatorKind::allocation};
  return made(s, op, sizes, kind);
}

Tensor empty_strided(Session& s, const Dims& sizes, const Dims& strides, Like kind) {
  static constexpr Operator op{"aten.empty_strided.default", OperatorKind::allocation};
  Tensor result = allocate_strided(s, kind, sizes, strides);
  dispatched(s, op, {}, {&result});
  return result;
}

Tensor empty_like(Session& s, const Tensor& tensor, std::optional<Dtype> dtype) {
  static constexpr Operator op{"aten.empty_like.default", OperatorKind::allocation};
  return made_like(s, op, tensor, dtype.value_or(tensor.dtype()));
}

Tensor zeros(Session& s, const Dims& sizes, Like kind) {
  static constexpr Operator op{"aten.zeros.default", OperatorKind::pointwise};
  return made(s, op, sizes, kind);
}

Tensor zeros_like(Session& s, const Tensor& tensor) {
  static constexpr Operator op{"aten.zeros_like.default", OperatorKind::pointwise};
  return made_like(s, op, tensor, tensor.dtype());
}

Tensor ones(Session& s, const Dims& sizes, Like kind) {
  static constexpr Operator op{"aten.ones.default", OperatorKind::pointwise};
  return made(s, op, sizes, kind);
}

Tensor ones_like(Session& s, const Tensor& tensor) {
  static constexpr Operator op{"aten.ones_like.default", OperatorKind::pointwise};
  return made_like(s, op, tensor, tensor.dtype());
}

Tensor full(Session& s, const Dims& sizes, Like kind) {
  static constexpr Operator op{"aten.full.default", OperatorKind::pointwise};
  return made(s, op, sizes, kind);
}

Tensor full_like(Session& s, const Tensor& tensor) {
  static constexpr Operator op{"aten.full_like.default", OperatorKind::pointwise};
  return made_like(s, op, tensor, tensor.dtype());
}

Tensor scalar_tensor(Session& s, Like kind) {
  static constexpr Operator op{"aten.scalar_tensor.default", OperatorKind::pointwise};
  return made(s, op, {}, kind);
}

Tensor tensor(Session& s, const Dims& sizes, Like kind) {
  static constexpr Operator op{"aten.lift_fresh.default", OperatorKind::view};
  const Tensor given = allocate(s, kind, sizes);
  // A fake tensor stands in for the real one that Python made.
  Tensor result = s.settings.fake_tensors ? allocate(s, kind, sizes) : given;
  dispatched(s, op, {&given}, {&result});
  if (kind.device == Device::cuda) s.host_sync();  // the values are copied from the host
  return result;
}

Tensor arange(Session& s, std::int64_t count, Like kind, ArangeForm form) {
  static constexpr Operator ops[]{{"aten.arange.default", OperatorKind::pointwise},
                                  {"aten.arange.start", OperatorKind::pointwise},
                                  {"aten.arange.start_step", OperatorKind::pointwise}};
  return made(s, ops[static_cast<std::size_t>(form)], {count}, kind);
}

Tensor new_empty(Session& s, const Tensor& tensor, const Dims& sizes) {
  static constexpr Operator op{"aten.new_empty.default", OperatorKind::allocation};
  return made_new(s, op, tensor, sizes);
}

Tensor new_empty_strided(Session& s, const Tensor& tensor, const Dims& sizes, const Dims& strides,
                         Like kind) {
  static constexpr Operator op{"aten.new_empty_strided.default", OperatorKind::allocation};
  Tensor result = allocate_strided(s, kind, sizes, strides);
  dispatched(s, op, {&tensor}, {&result});
  return result;
}

Tensor new_zeros(Session& s, const Tensor& tensor, const Dims& sizes) {
  static constexpr Operator op{"aten.new_zeros.default", OperatorKind::pointwise};
  return made_new(s, op, tensor, sizes);
}

Tensor new_ones(Session& s, const Tensor& tensor, const Dims& sizes, std::optional<Dtype> dtype) {
  static constexpr Operator op{"aten.new_ones.default", OperatorKind::pointwise};
  Tensor result = allocate(s, like(tensor, dtype.value_or(tensor.dtype())), sizes);
  dispatched(s, op, {&tensor}, {&result});
  return result;
}

Tensor zero_(Session& s, Tensor self) {
  static constexpr Operator op{"aten.zero_.default", OperatorKind::pointwise};
  return overwritten(s, op, std::move(self));
}

Tensor fill_(Session& s, Tensor self) {
  static constexpr Operator op{"aten.fill_.Scalar", OperatorKind::pointwise};
  return overwritten(s, op, std::move(self));
}

Tensor uniform_(Session& s, Tensor self) {
  static constexpr Operator op{"aten.uniform_.default", OperatorKind::random};
  return overwritten(s, op, std::move(self));
}

void item(Session& s, const Tensor& tensor) {
  static constexpr Operator op{"aten._local_scalar_dense.default", OperatorKind::host};
  dispatched(s, op, {&tensor}, {});
  if (tensor.device() == Device::cuda) s.host_sync();
}

}  // namespace shardscope::eager

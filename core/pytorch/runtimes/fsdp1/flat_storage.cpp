#include "core/pytorch/runtimes/fsdp1/flat_storage.h"

#include "core/pytorch/engine/copies.h"

namespace shardscope::eager::fsdp1 {

void allocate_storage(const Tensor& tensor) { tensor.storage()->resize(tensor.bytes()); }

void free_storage(const Tensor& tensor) { tensor.storage()->resize({}); }

bool is_allocated(const Tensor& tensor) { return tensor.storage()->bytes() == tensor.bytes(); }

bool same_storage(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }

Tensor pad_right(Session& s, const Tensor& tensor, std::int64_t elements) {
  static constexpr Operator op{"aten.constant_pad_nd.default", OperatorKind::copy};
  const Tensor padded = allocate(s, like(tensor), {tensor.numel() + elements});
  dispatched(s, op, {&tensor}, {&padded});
  return padded;
}

Tensor pinned(Session& s, const Tensor& tensor) {
  static constexpr Operator op{"aten._pin_memory.default", OperatorKind::copy};
  const Tensor copy(Ref(new TensorImpl(
      StorageImpl::allocate(
          s, {.bytes = tensor.bytes(), .device = Device::cpu, .stream = s.stream, .pinned = true}),
      tensor->layout)));
  dispatched(s, op, {&tensor}, {&copy});
  return copy;
}

Tensor empty_like_on(Session& s, const Tensor& tensor, Like like) {
  static constexpr Operator op{"aten.empty_like.default", OperatorKind::allocation};
  const Tensor made = allocate(s, like, tensor.sizes());
  dispatched(s, op, {&tensor}, {&made});
  return made;
}

}  // namespace shardscope::eager::fsdp1

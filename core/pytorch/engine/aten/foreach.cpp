#include "core/pytorch/engine/aten/foreach.h"

#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

Tensors joined(std::initializer_list<const Tensors*> lists) {
  Tensors all;
  for (const Tensors* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

void written(const Tensors& tensors) {
  for (const Tensor& tensor : tensors) ++tensor->version;
}

}  // namespace

void foreach_in_place(Session& s, const Operator& op, std::initializer_list<const Tensors*> lists) {
  written(**lists.begin());
  dispatched(s, op, joined(lists), Tensors());
}

void foreach_in_place(Session& s, const Operator& op, const Tensors& self, const Tensor& other) {
  written(self);
  Tensors all = self;
  all.push_back(other);
  dispatched(s, op, all, Tensors());
}

Tensors foreach_new(Session& s, const Operator& op, std::initializer_list<const Tensors*> lists) {
  Tensors results;
  for (const Tensor& tensor : **lists.begin())
    results.push_back(allocate_like(s, tensor, tensor.dtype()));
  dispatched(s, op, joined(lists), results);
  return results;
}

Tensors foreach_norm(Session& s, const Tensors& self) {
  static constexpr Operator op{"aten._foreach_norm.Scalar", OperatorKind::reduction};
  Tensors made, norms;
  for (const Tensor& tensor : self) made.push_back(allocate(s, like(tensor), {}));
  // Of an empty tensor a zero takes the place of what was made for the kernel.
  Tensors all = made;
  for (std::size_t i = 0; i < self.size(); ++i) {
    const bool empty = self[i].numel() == 0;
    norms.push_back(empty ? allocate(s, like(self[i]), {}) : made[i]);
    if (empty) all.push_back(norms.back());
  }
  dispatched(s, op, self, all);
  return norms;
}

}  // namespace shardscope::eager

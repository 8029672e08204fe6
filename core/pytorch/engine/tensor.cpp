#include "core/pytorch/engine/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

std::int64_t Tensor::numel() const { return sizes().product(); }
Bytes Tensor::bytes() const { return bytes_of(numel(), dtype()); }
void Tensor::set_grad(Tensor gradient) const {
  if (gradient) gradient.storage()->tag.category = MemoryCategory::gradients;
  impl_->grad = std::move(gradient);
}
void Tensor::set_requires_grad(bool on) const { impl_->requires_grad_flag = on; }

void Tensor::set_grad_dtype(std::optional<Dtype> wanted) const {
  AutogradExtras& extras = impl_->with_extras();
  extras.has_grad_dtype = true;
  extras.grad_dtype = wanted;
  if (!extras.grad_accumulator) return;
  InputMetadata& expected = extras.grad_accumulator->input(0);
  expected.dtype = wanted.value_or(dtype());
  expected.any_dtype = !wanted;
}

bool Tensor::is_contiguous() const { return eager::is_contiguous(sizes(), strides()); }

bool Tensor::is_floating_point() const {
  const Dtype d = dtype();
  if (impl_->is_complex) return false;
  return d == Dtype::float64 || d == Dtype::float32 || d == Dtype::float16 || d == Dtype::bfloat16;
}

Dtype Tensor::shown_dtype() const {
  const auto& float8 = impl_->float8();
  return float8 ? float8->original : dtype();
}

void Tensor::set_data(const Tensor& other) const {
  // torch/csrc/autograd/variable.cpp, VariableHooks::set_data: an accumulator made for another
  // dtype or device is no longer this tensor's.
  if (impl_->extras && (dtype() != other.dtype() || device() != other.device()))
    impl_->extras->grad_accumulator = nullptr;
  impl_->storage = other->storage;
  impl_->layout = other->layout;
}

TensorImpl::TensorImpl(Storage s, Layout l) : storage(std::move(s)), layout(std::move(l)) {}
TensorImpl::~TensorImpl() = default;
void TensorImpl::release_last() { delete this; }

AutogradExtras& TensorImpl::with_extras() {
  if (!extras) extras = std::make_unique<AutogradExtras>();
  return *extras;
}

const std::shared_ptr<const Float8Facts>& TensorImpl::float8() const {
  static const std::shared_ptr<const Float8Facts> none;
  return extras ? extras->float8 : none;
}

HookHandle register_hook(Session& s, const Tensor& tensor, TensorHook hook) {
  const std::uint64_t id = s.take_hook_id();
  if (tensor.is_leaf())
    tensor->with_extras().hooks.emplace_back(id, std::move(hook));
  else
    tensor.grad_fn()->hooks().tensor_pre_hooks.push_back(
        {id, tensor->output_number, std::move(hook)});
  return {id};
}

HookHandle register_post_accumulate_grad_hook(Session& s, const Tensor& leaf,
                                              PostAccumulateHook hook) {
  if (!leaf.is_leaf())
    throw Error({.where = "register_post_accumulate_grad_hook",
                 .what = "post accumulate grad hooks cannot be registered on non-leaf tensors",
                 .way_out = {}});
  const std::uint64_t id = s.take_hook_id();
  leaf->with_extras().post_accumulate_hooks.emplace_back(id, std::move(hook));
  return {id};
}

void remove_hook(const Tensor& tensor, HookHandle handle) {
  const auto has_id = [&](const auto& entry) { return entry.first == handle.id; };
  if (AutogradExtras* extras = tensor->extras.get()) {
    std::erase_if(extras->hooks, has_id);
    std::erase_if(extras->post_accumulate_hooks, has_id);
  }
  if (tensor.grad_fn()) tensor.grad_fn()->remove_hook(handle);
}

}  // namespace shardscope::eager

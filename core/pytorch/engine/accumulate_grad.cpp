#include "core/pytorch/engine/accumulate_grad.h"

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {

NodeRef grad_accumulator(Session& s, const Tensor& leaf) {
  AutogradExtras& extras = leaf->with_extras();
  if (extras.grad_accumulator) return NodeRef(extras.grad_accumulator);
  NodeRef node(new AccumulateGrad(s, leaf));
  extras.grad_accumulator = node.get();
  return node;
}

AccumulateGrad::AccumulateGrad(Session& s, Tensor leaf)
    : Node(s, "torch::autograd::AccumulateGrad", accumulate_sequence), leaf_(std::move(leaf)) {
  const AutogradExtras& extras = leaf_->with_extras();
  add_input({.dtype = extras.grad_dtype.value_or(leaf_.dtype()),
             .device = leaf_.device(),
             .stream = s.stream,
             .sizes = leaf_.sizes(),
             .any_dtype = extras.has_grad_dtype && !extras.grad_dtype});
}

AccumulateGrad::~AccumulateGrad() {
  Node*& current = leaf_->with_extras().grad_accumulator;
  if (current == this) current = nullptr;
}

bool obeys_layout_contract(const Tensor& gradient, const Tensor& leaf) {
  if (!is_dense(leaf.sizes(), leaf.strides())) return gradient.is_contiguous();
  for (int i = 0; i < gradient.dim(); ++i) {
    const std::int64_t stride = gradient.strides()[i];
    if (gradient.sizes()[i] == 1 ? stride == 0 : stride != leaf.strides()[i]) return false;
  }
  return true;
}

void AccumulateGrad::accumulate(Session& s, const Tensor& gradient) const {
  if (leaf_.grad().defined()) {
    if (s.grad_enabled)
      leaf_.set_grad(add(s, leaf_.grad(), gradient));
    else
      add_(s, leaf_.grad(), gradient);
    return;
  }
  const NodeHooks* hooks = hooks_if_any();
  const int expected_references = hooks && !hooks->post_hooks.empty() ? 2 : 1;
  if (!s.grad_enabled && gradient->references() <= expected_references &&
      obeys_layout_contract(gradient, leaf_)) {
    leaf_.set_grad(detach(s, gradient));
  } else if (is_dense(leaf_.sizes(), leaf_.strides())) {
    const Tensor copy = new_empty_strided(s, gradient, leaf_.sizes(), leaf_.strides(),
                                          like(leaf_, gradient.dtype()));
    leaf_.set_grad(copy_(s, copy, gradient));
  } else {
    leaf_.set_grad(clone_contiguous(s, gradient));
  }
}

Tensors AccumulateGrad::apply(Session& s, Tensors&& gradients) {
  if (!gradients[0].defined() || !leaf_.requires_grad()) return {};
  // Lives until the hooks have run, as in the real one.
  const Tensor gradient = std::move(gradients[0]);
  accumulate(s, gradient);
  if (leaf_->extras)
    // NOLINTNEXTLINE(modernize-loop-convert): a hook may add others
    for (std::size_t i = 0; i < leaf_->extras->post_accumulate_hooks.size(); ++i) {
      const PostAccumulateHook hook = leaf_->extras->post_accumulate_hooks[i].second;
      hook(s, leaf_);
    }
  return {};
}

}  // namespace shardscope::eager

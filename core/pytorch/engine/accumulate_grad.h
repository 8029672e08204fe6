// AccumulateGrad: the end of the graph at a leaf, which gets the gradient.
#pragma once

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

/// torch::autograd::impl::grad_accumulator: one for a leaf as long as something holds it.
NodeRef grad_accumulator(Session& s, const Tensor& leaf);

/// torch/csrc/autograd/functions/accumulate_grad.h: takes the gradient as it is, copies it or adds
/// it to what is there.
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(Session& s, Tensor leaf);
  ~AccumulateGrad() override;
  const Tensor& leaf() const { return leaf_; }
  Tensors apply(Session& s, Tensors&& gradients) override;

 private:
  void accumulate(Session& s, const Tensor& gradient) const;

  Tensor leaf_;
};

/// obeys_layout_contract of torch/csrc/autograd/utils/grad_layout_contract.h.
bool obeys_layout_contract(const Tensor& gradient, const Tensor& leaf);

}  // namespace shardscope::eager

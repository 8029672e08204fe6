#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {

SavedTensor::SavedTensor(Session& s, std::string_view field, const Tensor& tensor, bool is_output)
    : field_(field), is_output_(is_output) {
  was_leaf_ = tensor.is_leaf();
  requires_grad_ = tensor.requires_grad();
  if (!s.saved_tensor_hooks.empty() && !tensor->wrapped_number) {
    output_number_ = tensor->output_number;
    if (!is_output_) origin_ = gradient_edge_if_any(s, tensor);
    hooks_ = s.saved_tensor_hooks.back();
    const NoGrad no_grad(s);
    packed_ = hooks_->pack(s, tensor);
    return;
  }
  if (!is_output_ || was_leaf_) {
    data_ = tensor;
    return;
  }
  // The node must not hold a reference to itself through its output.
  output_number_ = tensor->output_number;
  data_ = shallow_detach(s, tensor);
  detached_ = true;
}

Tensor SavedTensor::unpack(Session& s, const NodeRef& owner) const {
  if (!hooks_ && !detached_) return data_;
  const Tensor data = hooks_ ? hooks_->unpack(s, packed_) : data_;
  // Data that nothing is attached to are handed on as they are.
  if (was_leaf_ && !requires_grad_ && !data.requires_grad()) return data;
  Tensor variable = shallow_detach(s, data);
  if (!was_leaf_) {
    variable->grad_fn = origin_.valid() ? origin_.node : owner;
    variable->output_number = output_number_;
  } else {
    variable->requires_grad_flag = requires_grad_;
  }
  return variable;
}

void SavedTensor::release() {
  data_.reset();
  origin_ = {};
  hooks_.reset();
  packed_.reset();
}

}  // namespace shardscope::eager

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {

SavedTensor::SavedTensor(Session& s, std::string_view field, const Tensor& tensor, bool is_output)
    : field_(field), is_output_(is_output) {
  was_leaf_ = tensor.is_leaf();
  requires_grad_ = tensor.requires_grad();
  if (!s.saved_tensor_hooks.empty() && !tensor->wrapped_number) {
    output_number_ = tensor->output_number;
    packed_ = std::make_unique<Packed>();
    if (!is_output_) packed_->origin = gradient_edge_if_any(s, tensor);
    packed_->hooks = s.saved_tensor_hooks.back();
    const NoGrad no_grad(s);
    packed_->value = packed_->hooks->pack(s, tensor);
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
  if (!packed_ && !detached_) return data_;
  const Tensor data = packed_ ? packed_->hooks->unpack(s, packed_->value) : data_;
  // Data that nothing is attached to are handed on as they are.
  if (was_leaf_ && !requires_grad_ && !data.requires_grad()) return data;
  Tensor variable = shallow_detach(s, data);
  if (!was_leaf_) {
    variable->grad_fn = packed_ && packed_->origin.valid() ? packed_->origin.node : owner;
    variable->output_number = output_number_;
  } else {
    variable->requires_grad_flag = requires_grad_;
  }
  return variable;
}

void SavedTensor::release() {
  data_.reset();
  packed_.reset();
}

}  // namespace shardscope::eager

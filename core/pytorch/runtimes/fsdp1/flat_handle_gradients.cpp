// FlatHandle: gradients, sharded and not.
#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

namespace shardscope::eager::fsdp1 {

void FlatHandle::prepare_gradient_for_backward(Session& s) {
  const Tensor gradient = flat_.grad();
  if (!gradient.defined()) return;
  const bool is_offloaded = gradient.device() != device_;
  if (gradient.numel() == unpadded_elements() && gradient.device() == flat_.device()) return;
  if (gradient.numel() == layout().shard_elements) {
    const Tensor shard = is_offloaded ? cpu_gradient : shallow_detach(s, gradient);
    if (!is_offloaded) saved_gradient_shard = shard;
    if (unit_.precision.keep_low_precision_gradients && shard.dtype() != local_shard_.dtype())
      shard.set_data(to(s, shard, local_shard_.dtype()));
  }
  flat_.set_grad({});
}

void FlatHandle::cast_gradient_for_optimizer(Session& s) {
  if (forces_full_precision() || !unit_.precision.keep_low_precision_gradients) return;
  const Tensor gradient = flat_.grad();
  if (gradient.dtype() == compute_dtype_) return;
  gradient.set_data(to(s, gradient, compute_dtype_));
  if (uses_original_parameters()) use_sharded_gradient_views(s);
}

void FlatHandle::prepare_gradient_for_optimizer(Session& s) {
  if (cpu_gradient.defined()) {
    flat_.set_grad(cpu_gradient);
    cast_gradient_for_optimizer(s);
  } else if (saved_gradient_shard && progress.post_backward_called) {
    flat_.set_grad(*saved_gradient_shard);
    if (flat_.grad().defined()) cast_gradient_for_optimizer(s);
  }
  saved_gradient_shard.reset();
  progress.got_gradient = progress.got_gradient || flat_.grad().defined();
}

const Tensor& FlatHandle::sharded_gradient() const {
  if (cpu_gradient.defined()) return cpu_gradient;
  return saved_gradient_shard ? *saved_gradient_shard : flat_.grad();
}

void FlatHandle::unshard_gradient(Session& s) {
  const NoGrad no_grad(s);
  if (!is_sharded_strategy()) {
    use_unsharded_gradient_views(s);
    return;
  }
  Tensor none_count = zeros(s, {1}, {.dtype = Dtype::int32, .device = device_});
  fill_(s, select(s, none_count, 0, 0));
  all_reduce(s, unit_.group, none_count, "SUM");
  item(s, select(s, none_count, 0, 0));
  saved_gradient_shard = flat_.grad();
  if (!flat_.grad().defined()) {
    use_unsharded_gradient_views(s);
    return;
  }
  const Tensor padded =
      empty(s, {layout().padded_elements()}, {saved_gradient_shard->dtype(), device_});
  all_gather_single(s, unit_.group, padded, *saved_gradient_shard);
  flat_.set_grad(view(s, slice(s, padded, 0, 0, unpadded_elements()), {unpadded_elements()}));
  use_unsharded_gradient_views(s);
}

void FlatHandle::reshard_gradient(Session& s) {
  if (uses_original_parameters()) use_sharded_gradient_views(s);
  if (!is_sharded_strategy()) return;
  flat_.set_grad(saved_gradient_shard.value_or(Tensor()));
  saved_gradient_shard.reset();
}

/// A gradient of another shape or dtype than its parameter's goes in as data of one that has them.
void FlatHandle::set_gradient_view(Session& s, const Tensor& parameter, const Tensor& view,
                                   bool as_data) {
  if (!as_data) {
    parameter.set_grad(view);
    return;
  }
  if (!parameter.grad().defined()) parameter.set_grad(empty_like(s, parameter));
  parameter.grad().set_data(view);
}

void FlatHandle::use_unsharded_gradient_views(Session& s) {
  if (!flat_.grad().defined()) {
    for (const Tensor& parameter : parameters_) parameter.set_grad({});
    for (const Tensor& parameter : alias_parameters_) parameter.set_grad({});
    return;
  }
  const auto set = [&](const Tensor& parameter, const Tensor& view) {
    const bool differs = parameter.sizes() != view.sizes() || parameter.dtype() != view.dtype() ||
                         parameter.device() != view.device();
    set_gradient_view(s, parameter, view, differs);
  };
  const Tensors views = unflat_views(s, flat_.grad());
  for (std::size_t i = 0; i < views.size(); ++i) set(places_[i].tensor(), views[i]);
  for (const Alias& alias : aliases_)
    set(alias.place.tensor(), places_[alias.first].tensor().grad());
}

void FlatHandle::use_sharded_gradient_views(Session& s) {
  const NoGrad no_grad(s);
  const Tensor gradient = sharded_gradient();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    const auto held = part(i);
    if (!gradient.defined() || !held || !parameter.requires_grad() || gradient_is_none_[i]) {
      parameter.set_grad({});
      continue;
    }
    const bool as_data =
        unit_.precision.keep_low_precision_gradients || parameter.dtype() != gradient.dtype();
    if (as_data && !parameter.grad().defined()) parameter.set_grad(empty_like(s, parameter));
    const Tensor part_of_gradient = reshape(
        s, slice(s, gradient, 0, held->offset, held->offset + held->elements), parameter.sizes());
    set_gradient_view(s, parameter, part_of_gradient, as_data);
  }
  for (std::size_t i = 0; i < aliases_.size(); ++i) {
    const Tensor& parameter = alias_parameters_[i];
    parameter.set_grad(gradient.defined() && parameter.requires_grad()
                           ? places_[aliases_[i].first].tensor().grad()
                           : Tensor());
  }
}

void FlatHandle::reset_gradient_is_none() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].requires_grad()) gradient_is_none_[i] = false;
}

void FlatHandle::reset_gradient_info_if_needed() {
  if (!uses_original_parameters()) return;
  const auto has_gradient = [](const Tensor& parameter) { return parameter.grad().defined(); };
  if (std::none_of(parameters_.begin(), parameters_.end(), has_gradient)) flat_.set_grad({});
  const auto trains = [](const Tensor& parameter) { return parameter.requires_grad(); };
  flat_.set_requires_grad(std::any_of(parameters_.begin(), parameters_.end(), trains));
}

}  // namespace shardscope::eager::fsdp1

// FlatHandle: the views that modules compute with.
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/fsdp1/flat_handle.h"
#include "core/pytorch/runtimes/fsdp1/flat_storage.h"

namespace shardscope::eager::fsdp1 {

Tensors FlatHandle::unflat_views(Session& s, const Tensor& flat) const {
  std::vector<std::int64_t> sizes;
  std::vector<bool> is_fill;
  std::size_t next_fill = 0;
  for (std::size_t i = 0; i <= places_.size(); ++i) {
    for (; next_fill < layout().fill.size() &&
           layout().fill[next_fill].before == static_cast<std::int32_t>(i);
         ++next_fill) {
      sizes.push_back(layout().fill[next_fill].elements);
      is_fill.push_back(true);
    }
    if (i == places_.size()) break;
    sizes.push_back(layout().elements[i]);
    is_fill.push_back(false);
  }
  const Tensors parts = split_with_sizes(s, flat, sizes, 0);
  Tensors views;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (is_fill[i]) continue;
    const std::size_t parameter = views.size();
    views.push_back(contiguous_[parameter]
                        ? view(s, parts[i], shapes_[parameter])
                        : as_strided(s, parts[i], shapes_[parameter], strides_[parameter],
                                     parts[i]->layout.offset));
  }
  return views;
}

void FlatHandle::use_unsharded_views(Session& s, bool as_parameters) {
  // A prefetch may come from a forward without grad; the views of a later one need their grad_fn.
  const EnableGrad enable_grad(s);
  const Tensors views = unflat_views(s, flat_);
  for (std::size_t i = 0; i < views.size(); ++i) use_view(s, i, views[i], as_parameters);
  use_alias_views(as_parameters);
}

void FlatHandle::use_view(Session& s, std::size_t i, const Tensor& view, bool as_parameter) {
  Tensor& place = places_[i].tensor();
  places_[i].named().registered = as_parameter || registers_views();
  if (as_parameter && uses_original_parameters()) {
    place = parameters_[i];
    place.set_data(view);
  } else if (as_parameter) {
    place = detach(s, view);
    place.set_requires_grad(unit_.plan.trainable);
  } else if (uses_original_parameters() && progress.state == HandleState::backward_pre) {
    views_[i].set_data(view);
    place = views_[i];
  } else {
    if (uses_original_parameters() && progress.state == HandleState::forward) views_[i] = view;
    place = view;
  }
}

void FlatHandle::use_alias_views(bool as_parameters) {
  for (std::size_t i = 0; i < aliases_.size(); ++i) {
    const Tensor first = places_[aliases_[i].first].tensor();
    Tensor& place = aliases_[i].place.tensor();
    place = first;
    aliases_[i].place.named().registered = as_parameters || registers_views();
    if (as_parameters && uses_original_parameters()) {
      place = alias_parameters_[i];
      place.set_data(first);
    }
  }
}

void FlatHandle::use_sharded_views(Session& s) {
  unsharded_for_skipped_views_.reset();
  if (!is_sharded_strategy()) {
    use_unsharded_views(s, true);
    return;
  }
  const NoGrad no_grad(s);
  const Tensor nothing = empty(s, {0}, like(flat_));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    places_[i].tensor() = parameters_[i];
    places_[i].named().registered = true;
    const auto held = part(i);
    parameters_[i].set_data(held ? slice(s, flat_, 0, held->offset, held->offset + held->elements)
                                 : nothing);
  }
  for (std::size_t i = 0; i < aliases_.size(); ++i) {
    aliases_[i].place.tensor() = alias_parameters_[i];
    aliases_[i].place.named().registered = true;
    alias_parameters_[i].set_data(places_[aliases_[i].first].tensor());
  }
  if (progress.state == HandleState::backward_post)
    for (Tensor& view : views_) view.reset();
}

bool FlatHandle::write_back_original_parameters(Session& s) {
  const NoGrad no_grad(s);
  const bool is_unsharded = is_sharded_strategy() && !is_sharded(flat_);
  if (is_unsharded || skipped_sharded_views()) return false;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (const auto held = part(i)) write_back_gradient(s, i, *held);
  return false;
}

void FlatHandle::write_back_gradient(Session& s, std::size_t i, const ParameterPart& part) {
  const Tensor gradient = parameters_[i].grad();
  const auto range = [&](const Tensor& flat) {
    return slice(s, flat, 0, part.offset, part.offset + part.elements);
  };
  if (!gradient.defined()) {
    if (!flat_.grad().defined()) return;
    zero_(s, range(flat_.grad()));
    gradient_is_none_[i] = true;
    return;
  }
  const bool offloads = unit_.shared.options.offload_parameters;
  if (!is_sharded_strategy() && offloads) return;
  if (flat_.grad().defined() && same_storage(gradient, flat_.grad())) return;
  if (!flat_.grad().defined()) flat_.set_grad(zeros_like(s, flat_));
  const Tensor source = is_sharded_strategy() ? gradient : view(s, gradient, {gradient.numel()});
  copy_(s, range(flat_.grad()), source);
}

}  // namespace shardscope::eager::fsdp1

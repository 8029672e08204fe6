#include "core/pytorch/engine/autocast.h"

#include "core/pytorch/engine/copies.h"

namespace shardscope::eager {
namespace {

/// is_eligible of aten/src/ATen/autocast_mode.h.
bool may_cast(const Session& s, const Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() && tensor.dtype() != Dtype::float64 &&
         tensor.device() == s.settings.device;
}

}  // namespace

Tensor cached_cast(Session& s, Dtype dtype, const Tensor& tensor) {
  if (!may_cast(s, tensor) || tensor.dtype() == dtype) return tensor;
  const bool cached = dtype == s.autocast.dtype && tensor.dtype() == Dtype::float32 &&
                      tensor.requires_grad() && tensor.is_leaf() && !tensor->is_view &&
                      s.autocast.cache_enabled;
  if (!cached) return to(s, tensor, dtype);
  for (const auto& [leaf, cast] : s.autocast.cache)
    if (leaf.is(tensor)) return cast;
  Tensor cast = to(s, tensor, dtype);
  s.autocast.cache.emplace_back(tensor, cast);
  return cast;
}

Tensor to_lower_precision(Session& s, const Tensor& tensor) {
  return s.autocast.enabled ? cached_cast(s, s.autocast.dtype, tensor) : tensor;
}

Tensor to_float32(Session& s, const Tensor& tensor) {
  return s.autocast.enabled ? cached_cast(s, Dtype::float32, tensor) : tensor;
}

Tensor to_float32_on_cuda(Session& s, const Tensor& tensor) {
  return s.settings.device == Device::cuda ? to_float32(s, tensor) : tensor;
}

void to_widest_on_cpu(Session& s, std::span<Tensor> tensors) {
  if (!s.autocast.enabled || s.settings.device != Device::cpu) return;
  Dtype widest = s.autocast.dtype;
  for (const Tensor& tensor : tensors)
    if (may_cast(s, tensor) && tensor.dtype() == Dtype::float32) widest = Dtype::float32;
  for (Tensor& tensor : tensors) tensor = cached_cast(s, widest, tensor);
}

Autocast::Autocast(Session& s, Dtype dtype, bool enabled)
    : s_(s), enabled_before_(s.autocast.enabled), dtype_before_(s.autocast.dtype) {
  s.autocast.enabled = enabled;
  s.autocast.dtype = dtype;
  ++s.autocast.nesting;
}

Autocast::~Autocast() {
  if (--s_.autocast.nesting == 0) s_.autocast.cache.clear();
  s_.autocast.enabled = enabled_before_;
  s_.autocast.dtype = dtype_before_;
}

}  // namespace shardscope::eager

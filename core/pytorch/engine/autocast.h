// torch.amp.autocast: casts of arguments before an operator, and the cache of cast weights.
#pragma once

#include <span>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

/// at::autocast::cached_cast: `tensor` in `dtype`, if autocast may cast it; a float32 leaf that
/// requires grad is cast once and kept until the outermost autocast ends.
Tensor cached_cast(Session& s, Dtype dtype, const Tensor& tensor);
/// The argument of an operator of the list that runs in the lower precision (matmuls, linear,
/// attention ...); as it is where autocast is off. PyTorch casts the last argument first: C++
/// evaluates them in that order.
Tensor to_lower_precision(Session& s, const Tensor& tensor);
/// The argument of an operator of the float32 list of both devices (most losses, prod ...).
Tensor to_float32(Session& s, const Tensor& tensor);
/// Of cuda's list only (pow, rsqrt, exp, softmax, sum, layer_norm ...); torch 2.15's AutocastCPU
/// leaves these alone.
Tensor to_float32_on_cuda(Session& s, const Tensor& tensor);
/// The arguments of an operator that AutocastCPU runs in the widest of their dtypes (cat, stack).
void to_widest_on_cpu(Session& s, std::span<Tensor> tensors);

/// `with torch.autocast(device, dtype)`.
class Autocast {
 public:
  Autocast(Session& s, Dtype dtype, bool enabled = true);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  Session& s_;
  bool enabled_before_;
  Dtype dtype_before_;
};

}  // namespace shardscope::eager

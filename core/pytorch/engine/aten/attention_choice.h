// Which kernel scaled_dot_product_attention runs.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/session.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

enum class AttentionKernel : std::uint8_t { math, flash, efficient, cudnn };

/// The arguments of torch.nn.functional.scaled_dot_product_attention that matter to its host code:
/// query (B, H, T, D), key and value (B, H or a divisor, T, D), a mask that broadcasts to
/// (B, H, T, T), bool or additive.
struct AttentionArguments {
  Tensor query, key, value, mask;
  double dropout = 0;
  bool causal = false;
  bool grouped_queries = false;  ///< enable_gqa
};

/// Error where every kernel that is on refuses. Source: PyTorch 2.15,
/// ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.cpp (cpu), select_sdp_backend.
AttentionKernel choose_attention_kernel(const Session& s, const AttentionArguments& arguments);

}  // namespace shardscope::eager

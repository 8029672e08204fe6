// torch.nn.attention.flex_attention under torch.compile.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// Of (B, H, T, D) that lie as (B, T, H, D), fewer heads of keys and values or as many; the mask's
/// tensors belong to the caller. Source: torch 2.15, inductor's kernel/flex and the code that it
/// writes, as seen in a recording: out and log-sum-exp are kept, and the largest scores are not.
Tensor flex_attention(Session& s, Tensor query, Tensor key, Tensor value);

/// AuxRequest(lse=True): what attention returns, and (B, H, T) logarithms of the sums of each row,
/// which have a gradient. `window` tokens before each query are attended to, itself among them; 0:
/// all of them. Source: torch 2.15, nn/attention/flex_attention.py.
struct AttentionWithSums {
  Tensor output, sums;
};
AttentionWithSums flex_attention_with_sums(Session& s, Tensor query, Tensor key, Tensor value,
                                           std::int64_t window);

}  // namespace shardscope::eager

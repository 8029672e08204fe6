// The attention that transformers' layers call: written out, or PyTorch's fused one.
#pragma once

#include <optional>
#include <utility>

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// The arguments of an attention_interface, and in what the families' eager ones differ.
struct AttentionCall {
  Tensor query, key, value, mask;  ///< mask may be None
  double dropout = 0;              ///< 0 outside of training
  bool causal = true;              ///< module.is_causal
  std::int64_t groups = 1;         ///< num_key_value_groups
  bool softmax_in_float32 = true;  ///< eager: softmax(dtype=float32), then the query's dtype
  bool as_value_dtype = false;     ///< eager: weights.type(value.dtype) after the softmax
  bool soft_cap = false;           ///< eager: attn_logit_softcapping
  bool contiguous_output = true;
  bool scaled = true;         ///< eager: the product is multiplied by a factor
  Tensor position_bias = {};  ///< added to the scores; None: the family has none
  Tensor sinks = {};          ///< eager: a column more of scores, one number a head (gpt-oss)
};

/// (B, T, H, D), and the weights where the attention is written out.
struct AttentionResult {
  Tensor output, weights;
};
AttentionResult attend(Session& s, const Context& context, const AttentionCall& call);

/// repeat_kv.
Tensor repeat_heads(Session& s, const Tensor& states, std::int64_t times);

/// past_key_values.update: what the attention reads from here on; the states themselves where no
/// cache is kept.
std::pair<Tensor, Tensor> cached(Session& s, const Context& context, std::size_t layer,
                                 const Tensor& key, const Tensor& value);
/// DynamicCache(config), where use_cache is on.
void start_cache(Session& s, const Context& context);
/// What the output object holds: the hidden states and the cache, which ends with it.
Tensors with_cache(const Context& context, Tensor hidden);

}  // namespace shardscope::eager

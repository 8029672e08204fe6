// LLaMA-Adapter's attention over a prompt that is trained. Source: litgpt 2685705, adapter.py.
#pragma once

#include <functional>
#include <utility>

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// Own names of the parameters that an attention with a prompt has: prompt (P, hidden) and one
/// number a head (1, 1, H, 1).
inline constexpr std::string_view adaption_prompt = "adapter_wte";
inline constexpr std::string_view gating_factor = "gating_factor";

bool has_adaption_prompt(const Module& attention);

/// What the attention has at hand: queries (B, H, T, D), its result (B, T, H, D), and how it makes
/// keys and values (1, H or a divisor, P, D) of hidden states.
struct PromptedAttention {
  Module& module;
  Tensor query, attended;
  std::function<std::pair<Tensor, Tensor>(const Tensor& hidden)> project;
};
/// Adds the queries' attention over the prompt, times the gating factor, to the result.
Tensor with_adaption_prompt(Session& s, const PromptedAttention& attention);

}  // namespace shardscope::eager

// A mixture's experts by grouped products. Source: transformers 5.24, integrations/moe.py.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// As many experts as can be hit by that many pairs of token and choice, with equal shares.
ExpertShares even_shares(std::int64_t experts, std::int64_t pairs);

/// use_experts_implementation's arguments, and the class's _apply_gate.
struct ExpertsForm {
  Tensor (*gate)(Session& s, Module& module, const Tensor& fused) = nullptr;
  bool is_transposed = false;  ///< weights [E, in, out]
  bool has_bias = false;       ///< gate_up_proj_bias and down_proj_bias
};

/// grouped_mm_experts_forward: {hidden states, indices, scores}.
Tensors run_grouped_experts(Session& s, Module& module, const Arguments& arguments,
                            const ExpertsForm& form);

}  // namespace shardscope::eager

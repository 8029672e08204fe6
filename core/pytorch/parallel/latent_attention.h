// DeepSeek-V3's attention over latents as torchtitan writes it. Source: torchtitan 0.3.0,
// models/deepseek_v3/model.py (Attention), models/common/rope.py (ComplexRoPE).
#pragma once

#include "core/pytorch/parallel/mixture.h"

namespace shardscope::eager::parallel {

/// The block's child "attention", which is called with {x, positions}.
void add_latent_attention(Session& s, Module& block, const MixtureOptions& options);

/// The attention's child "rope", ComplexRoPE, of heads of so many columns that are turned.
void add_complex_rotary(Session& s, Module& attention, std::int64_t length, std::int64_t columns);

}  // namespace shardscope::eager::parallel

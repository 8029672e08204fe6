// DeepSeek-V3's attention over latents as torchtitan writes it. Source: torchtitan 0.3.0,
// models/deepseek_v3/model.py (Attention), models/common/rope.py (ComplexRoPE).
#pragma once

#include "core/pytorch/parallel/mixture.h"

namespace shardscope::eager::parallel {

/// The block's child "attention", which is called with {x, positions}.
void add_latent_attention(Session& s, Module& block, const MixtureOptions& options);

}  // namespace shardscope::eager::parallel

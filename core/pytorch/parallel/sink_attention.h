// What GPT-OSS has of its own: attention with a sink for each head, and experts with biases and a
// clamped SwiGLU. Source: torchtitan 0.3.0, models/gpt_oss/ (model.py, moe.py), models/common/
// linear.py (ScaledBiasRowwiseLinear).
#pragma once

#include <cstdint>

#include "core/pytorch/parallel/mixture_modules.h"

namespace shardscope::eager::parallel {

/// Attention, which sees `window` tokens; 0: all before.
void add_sink_attention(Session& s, Module& block, const MixtureOptions& o, std::int64_t window);

/// Of a rank: how many experts, and their columns.
struct OwnExperts {
  std::int64_t experts = 0, hidden = 0;
};
/// GptOssGroupedExperts: parameters and forward of {tokens, how many each expert has}.
void set_clamped_experts(Session& s, Module& experts, const MixtureOptions& o,
                         const OwnExperts& own);

}  // namespace shardscope::eager::parallel

// How the constructors of rotary embeddings make their buffers.
#pragma once

#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// compute_default_rope_parameters of modeling_llama.py:
/// 1.0 / (base ** (arange(0, dim, 2) / dim)), `count` frequencies in float32.
Tensor default_inverse_frequencies(Session& s, std::int64_t count);
/// _compute_yarn_parameters of modeling_rope_utils.py, transformers 5.24.
Tensor yarn_inverse_frequencies(Session& s, std::int64_t count);

}  // namespace shardscope::eager

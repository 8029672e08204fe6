// Frequencies of rotary embeddings, in fp32 as transformers makes them.
#pragma once

#include <cstdint>

#include "core/model/model.h"

namespace shardscope {

/// Inverse frequency of pair `i` of a head of `head_dim` elements. Source: transformers 5.23,
/// modeling_rope_utils.py: the default, _compute_linear_scaling_rope_parameters and
/// _compute_llama3_parameters.
float inverse_frequency(const Rope& rope, std::int64_t i, std::int64_t head_dim);

}  // namespace shardscope

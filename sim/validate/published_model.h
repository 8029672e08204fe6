// The model of a published run: the row's shape as a config.json of a family that is known.
#pragma once

#include <string>

#include "sim/megatron/shaped_model.h"
#include "sim/validate/published_row.h"

namespace shardscope {

/// What of the shape the row does not state; "" where nothing is missing.
std::string missing_shape(const PublishedRow& row);

/// MPT and GPT-3-like models are gpt2, those with gated layers llama or qwen2: by the model's name,
/// else by whether ffn is four times hidden. Mixtures of experts are deepseek_v3 where their
/// attention has latents, else qwen3_moe or mixtral. The head is tied where that comes nearer to
/// params_b. `dropout` goes to attention and residual stream of a gpt2. Throws Error where shapes
/// do not divide, and where the shape makes another number of parameters than params_b (a fifth
/// off).
ShapedModel published_model(const PublishedRow& row, double dropout);

/// What a row and its family say, with what had to be assumed filled in.
DecoderShape shape_of(const PublishedRow& row);

}  // namespace shardscope

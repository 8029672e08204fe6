// A model of transformers as torchtitan's Llama of the same sizes.
#pragma once

#include "core/model/model.h"
#include "core/pytorch/parallel/llama.h"

namespace shardscope::eager::parallel {

/// Throws Error naming --model where it is no decoder as torchtitan's Llama is built: RMS norms,
/// rotary positions, SwiGLU, no biases, an output layer of its own.
LlamaShape llama_shape(const Model& model);

}  // namespace shardscope::eager::parallel

// A model of transformers as torchtitan's Llama of the same sizes.
#pragma once

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/parallel/llama.h"
#include "core/pytorch/parallel/mixture.h"

namespace shardscope::eager::parallel {

/// Throws Error naming --model where it is no decoder as torchtitan's Llama is built: RMS norms,
/// rotary positions, SwiGLU, no biases, an output layer of its own.
LlamaShape llama_shape(const Model& model);

/// Whether the model is of a family of mixtures that torchtitan's are played for.
bool is_mixture(const Model& model);
/// Of a mixture, or of a dense Llama or Qwen3. `config` is the config.json that the model was made
/// from. Throws Error naming --model where torchtitan 0.3 has no such decoder.
MixtureShape mixture_shape(const Model& model, const JsonValue& config);

}  // namespace shardscope::eager::parallel

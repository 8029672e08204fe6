// PEFT's LoRA and DoRA on an embedding: two parameters, and no layers around them. Source: peft
// 0.21.2, tuners/lora/layer.py (Embedding), dora.py (DoraEmbeddingLayer), variants.py.
#pragma once

#include <cstdint>
#include <memory>

#include "core/model/lora_config.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// torch.nn.Embedding, or transformers' classes of it that scale what they return.
bool is_embedding(const Module& module);

/// The layer around an embedding, its parameters in the embedding's dtype. Error for lora_bias,
/// which PEFT raises.
std::shared_ptr<Module> embedding_adapter(Session& s, std::shared_ptr<Module> base,
                                          std::int64_t rank, const LoraConfig& config);

/// cast_adapter_dtype of such a layer: each parameter takes the place of the one before.
void cast_embedding_adapter(Session& s, Module& layer, Dtype dtype);

/// Embedding.merge: adds the update to the weight.
void merge_embedding(Session& s, Module& layer);

}  // namespace shardscope::eager

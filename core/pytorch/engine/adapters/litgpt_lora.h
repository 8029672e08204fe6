// litgpt's LoRA on its own model: one adapter for query, key and value. Source: litgpt 00af8b0d,
// lora.py.
#pragma once

#include <cstdint>

#include "core/format/json_reader.h"
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// lora_r, lora_dropout, and lora_query to lora_head of the recipe.
struct LitgptLora {
  std::int64_t rank = 8;
  double dropout = 0.05;
  bool query = true, key = false, value = true, projection = false, mlp = false, head = false;
  bool operator==(const LitgptLora&) const = default;
};

struct LitgptLoraRequest {
  const LitgptLora& lora;
  const JsonValue& config;  ///< of the model: num_attention_heads, num_key_value_heads, head_dim
  const QuantizedLayers& quantized;
  Dtype dtype;  ///< of the adapters
};
/// mark_only_lora_as_trainable(model), with the adapters that the model was made with. `root` is of
/// the family litgpt; Error for another.
void put_litgpt_lora(Session& s, Module& root, const LitgptLoraRequest& request);

}  // namespace shardscope::eager

// config.json of the Llamas that benchmarks work on, as published.
#pragma once

#include <string_view>

namespace shardscope {

inline constexpr std::string_view llama3_8b = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "vocab_size": 128256})";
inline constexpr std::string_view llama3_405b = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 16384, "intermediate_size": 53248, "max_position_embeddings": 131072,
  "num_attention_heads": 128, "num_hidden_layers": 126, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "vocab_size": 128256})";

}  // namespace shardscope

// Models small enough to train in a test.
#pragma once

#include <string_view>

namespace shardscope {

// config.json of a GPT-2 and of a Llama with grouped queries and an untied head; 256 tokens, so
// that bytes fit.
inline constexpr std::string_view tiny_gpt2 = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 32, "n_embd": 32,
  "n_layer": 3, "n_head": 4, "n_inner": null, "activation_function": "gelu_new", "initializer_range": 0.1,
  "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true})";

inline constexpr std::string_view tiny_llama = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256, "hidden_size": 32,
  "intermediate_size": 88, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-06, "initializer_range": 0.1,
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false,
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})";

/// Small enough for kernels that are emulated a thread at a time.
inline constexpr std::string_view smallest_gpt2 = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 8, "n_embd": 16,
  "n_layer": 2, "n_head": 2, "n_inner": null, "activation_function": "gelu_new", "initializer_range": 0.1,
  "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true})";

/// Large enough for its arena to stand out of what a process holds anyway: 3.4 million parameters.
inline constexpr std::string_view medium_gpt2 = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 256, "n_embd": 256,
  "n_layer": 4, "n_head": 4, "n_inner": null, "activation_function": "gelu_new", "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true})";

}  // namespace shardscope

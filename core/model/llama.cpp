// Llama. Source: transformers 5.23 and 4.57.6, models/llama/modeling_llama.py and
// configuration_llama.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_llama(const ConfigReader& config, Model& model) {
  const bool attention_bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Llama",
                       .qkv_bias = attention_bias,
                       .out_bias = attention_bias,
                       .mlp_bias = config.flag("mlp_bias"),
                       .question_prefix = "transformer",
                       .whole_heads = true},
                      model);
}

void complete_llama(ConfigFields& fields, TransformersVersion version) {
  fill_head_dim(fields);
  fill_key_value_heads(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.23, configuration_llama.py, class LlamaConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 2048, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": null, "pretraining_tp": 1,
  "rms_norm_eps": 1e-06, "rope_parameters": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 2048, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": null, "pretraining_tp": 1,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily llama_family() {
  return {.model_type = "llama",
          .default_class = "LlamaForCausalLM",
          .classes = {"LlamaForCausalLM", "LlamaModel", "LlamaForSequenceClassification",
                      "LlamaForTokenClassification", "LlamaForQuestionAnswering"},
          .generating_classes = {"LlamaForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_llama,
          .build = build_llama};
}

}  // namespace shardscope

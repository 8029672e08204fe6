// Gemma 2. Source: transformers 5.23 and 4.57.6, models/gemma2/modeling_gemma2.py and
// configuration_gemma2.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_gemma2(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  const bool scales = model.transformers == TransformersVersion::v5;
  GatedDecoder gemma2{
      .name = "Gemma2",
      .activation_key = "hidden_activation",
      .qkv_bias = bias,
      .out_bias = bias,
      .norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                "post_feedforward_layernorm"},
      .needs_kv_heads = true,
      .whole_heads = true,
      .why_no_decoder = "norms after each part, soft-capped logits, sliding window"};
  if (scales) gemma2.embedding_class = "Gemma2TextScaledWordEmbedding";
  build_gated_decoder(config, gemma2, model);
  if (scales) add_embedding_scale(model);
}

void complete_gemma2(ConfigFields& fields, TransformersVersion) { fill_alternating_layers(fields); }

/// Source: transformers 5.23, configuration_gemma2.py, class Gemma2Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2,
  "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "layer_types": null,
  "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_parameters": null, "sliding_window": 4096, "tie_word_embeddings": true, "use_bidirectional_attention": null,
  "use_cache": true, "vocab_size": 256000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2,
  "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "layer_types": null,
  "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": true, "use_cache": true,
  "vocab_size": 256000})";

}  // namespace

ModelFamily gemma2_family() {
  return {.model_type = "gemma2",
          .default_class = "Gemma2ForCausalLM",
          .classes = {"Gemma2ForCausalLM", "Gemma2Model", "Gemma2ForSequenceClassification",
                      "Gemma2ForTokenClassification"},
          .generating_classes = {"Gemma2ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .has_sdpa = false,
          .rope = RopeKeys{},
          .complete = complete_gemma2,
          .build = build_gemma2};
}

}  // namespace shardscope

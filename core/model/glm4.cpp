// GLM-4 (0414). Source: transformers 5.24 and 4.57.6, models/glm4/modeling_glm4.py and
// configuration_glm4.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_partial = "0.5", .default_is_partial = true};

void build_glm4(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Glm4",
                       .rope = rope_keys,
                       .qkv_bias = config.flag("attention_bias"),
                       .packed_feed_forward = true,
                       .norms = {"input_layernorm", "post_attention_layernorm",
                                 "post_self_attn_layernorm", "post_mlp_layernorm"},
                       .needs_kv_heads = true,
                       .why_no_decoder = "norms after each part, partial rotary"},
                      model);
}

void complete_glm4(ConfigFields& fields, TransformersVersion version) {
  if (version == TransformersVersion::v5)
    fields.set_where_null("eos_token_id", "[151329,151336,151338]");
}

/// Source: transformers 5.24, configuration_glm4.py, class Glm4Config.
constexpr std::string_view default_config = R"({
  "attention_bias": true, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 13696,
  "max_position_embeddings": 131072, "model_type": "glm4", "num_attention_heads": 32, "num_hidden_layers": 40,
  "num_key_value_heads": 2, "pad_token_id": 151329, "rms_norm_eps": 1.5625e-07, "rope_parameters": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 151552})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": true, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": [151329, 151336, 151338],
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 13696,
  "max_position_embeddings": 131072, "model_type": "glm4", "num_attention_heads": 32, "num_hidden_layers": 40,
  "num_key_value_heads": 2, "pad_token_id": 151329, "partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 151552})";

}  // namespace

ModelFamily glm4_family() {
  return {.model_type = "glm4",
          .default_class = "Glm4ForCausalLM",
          .classes = {"Glm4ForCausalLM", "Glm4Model", "Glm4ForSequenceClassification",
                      "Glm4ForTokenClassification"},
          .generating_classes = {"Glm4ForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = rope_keys,
          .complete = complete_glm4,
          .build = build_glm4};
}

}  // namespace shardscope

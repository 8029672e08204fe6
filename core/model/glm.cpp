// GLM-4 of 2024. Source: transformers 5.24, models/glm/modeling_glm.py and
// configuration_glm.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_partial = "0.5", .default_is_partial = true};

void build_glm(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Glm",
                       .rope = rope_keys,
                       .qkv_bias = config.flag("attention_bias"),
                       .packed_feed_forward = true,
                       .needs_kv_heads = true,
                       .why_no_decoder = "partial rotary"},
                      model);
}

void complete_glm(ConfigFields& fields, TransformersVersion) {
  fields.set_where_null("eos_token_id", "[151329,151336,151338]");
}

/// Source: transformers 5.24, configuration_glm.py, class GlmConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": true, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 13696,
  "max_position_embeddings": 131072, "model_type": "glm", "num_attention_heads": 32, "num_hidden_layers": 40,
  "num_key_value_heads": 2, "pad_token_id": 151329, "rms_norm_eps": 1.5625e-07, "rope_parameters": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 151552})";

}  // namespace

ModelFamily glm_family() {
  return {.model_type = "glm",
          .default_class = "GlmForCausalLM",
          .classes = {"GlmForCausalLM", "GlmModel", "GlmForSequenceClassification",
                      "GlmForTokenClassification"},
          .generating_classes = {"GlmForCausalLM"},
          .default_config = default_config,
          .rope = rope_keys,
          .complete = complete_glm,
          .build = build_glm};
}

}  // namespace shardscope

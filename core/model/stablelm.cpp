// StableLM. Source: transformers 5.24 and 4.57.6, models/stablelm/modeling_stablelm.py and
// configuration_stablelm.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_partial = "0.25", .default_is_partial = true};

void build_stablelm(const ConfigReader& config, Model& model) {
  refuse_query_key_norms(config);
  GatedDecoder stablelm{.name = "StableLm",
                        .rope = rope_keys,
                        .qkv_bias = config.flag("use_qkv_bias"),
                        .norm = NormKind::layer_norm,
                        .epsilon_key = "layer_norm_eps",
                        .norms = {"input_layernorm"},
                        .dropouts = {"dropout"},
                        .whole_heads = true,
                        .why_no_decoder = "partial rotary"};
  if (model.transformers == TransformersVersion::v4) {
    stablelm.attention_class = "SdpaAttention";
    stablelm.dropout_and_rotary_in_attention = true;
  }
  if (!config.flag("use_parallel_residual")) stablelm.norms.push_back("post_attention_layernorm");
  build_gated_decoder(config, stablelm, model);
}

/// Source: transformers 5.24, configuration_stablelm.py, class StableLmConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_dropout": 0.0,
  "hidden_size": 2560, "initializer_range": 0.02, "intermediate_size": 6912, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 4096, "model_type": "stablelm", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "pad_token_id": null, "qk_layernorm": false, "rope_parameters": null,
  "tie_word_embeddings": false, "use_cache": true, "use_parallel_residual": false, "use_qkv_bias": false,
  "vocab_size": 50304})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_dropout": 0.0,
  "hidden_size": 2560, "initializer_range": 0.02, "intermediate_size": 6912, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 4096, "model_type": "stablelm", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "partial_rotary_factor": 0.25, "qk_layernorm": false, "rope_scaling": null,
  "rope_theta": 10000, "tie_word_embeddings": false, "use_cache": true, "use_parallel_residual": false,
  "use_qkv_bias": false, "vocab_size": 50304})";

}  // namespace

ModelFamily stablelm_family() {
  return {.model_type = "stablelm",
          .default_class = "StableLmForCausalLM",
          .classes = {"StableLmForCausalLM", "StableLmModel", "StableLmForSequenceClassification",
                      "StableLmForTokenClassification"},
          .generating_classes = {"StableLmForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = rope_keys,
          .build = build_stablelm};
}

}  // namespace shardscope

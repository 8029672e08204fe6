// Granite. Source: transformers 5.24 and 4.57.6, models/granite/modeling_granite.py and
// configuration_granite.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_granite(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(
      config,
      {.name = "Granite",
       .qkv_bias = bias,
       .out_bias = bias,
       .mlp_bias = config.flag("mlp_bias"),
       .why_no_decoder = "multipliers of embedding, attention, residual and logits"},
      model);
}

void complete_granite(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.24, configuration_granite.py, class GraniteConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 1.0, "bos_token_id": 1,
  "embedding_multiplier": 1.0, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 11008, "logits_scaling": 1.0, "max_position_embeddings": 2048,
  "mlp_bias": false, "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": null, "pad_token_id": null, "residual_multiplier": 1.0, "rms_norm_eps": 1e-06,
  "rope_parameters": null, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 1.0, "bos_token_id": 1,
  "embedding_multiplier": 1.0, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 11008, "logits_scaling": 1.0, "max_position_embeddings": 2048,
  "mlp_bias": false, "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": null, "pad_token_id": null, "residual_multiplier": 1.0, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily granite_family() {
  return {.model_type = "granite",
          .default_class = "GraniteForCausalLM",
          .classes = {"GraniteForCausalLM", "GraniteModel"},
          .generating_classes = {"GraniteForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_granite,
          .build = build_granite};
}

}  // namespace shardscope

// OLMo. Source: transformers 5.24 and 4.57.6, models/olmo/modeling_olmo.py and
// configuration_olmo.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_olmo(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Olmo",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .norm_class = "LayerNorm",
                       .weightless_norms = true,
                       .epsilon_key = {},
                       .why_no_decoder = "norms without weights"},
                      model);
}

void complete_olmo(ConfigFields& fields, TransformersVersion version) {
  fill_key_value_heads(fields);
  if (version == TransformersVersion::v4) copy_rope_type(fields);
}

/// Source: transformers 5.24, configuration_olmo.py, class OlmoConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "clip_qkv": null, "eos_token_id": 50279,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 2048, "model_type": "olmo", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": null, "pad_token_id": 1, "rope_parameters": null, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 50304})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "clip_qkv": null, "eos_token_id": 50279,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 2048, "model_type": "olmo", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": null, "pad_token_id": 1, "rope_scaling": null, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 50304})";

}  // namespace

ModelFamily olmo_family() {
  return {.model_type = "olmo",
          .default_class = "OlmoForCausalLM",
          .classes = {"OlmoForCausalLM", "OlmoModel"},
          .generating_classes = {"OlmoForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .rope = RopeKeys{},
          .complete = complete_olmo,
          .build = build_olmo};
}

}  // namespace shardscope

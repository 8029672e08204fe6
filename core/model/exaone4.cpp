// EXAONE 4. Source: transformers 5.24, models/exaone4/modeling_exaone4.py and
// configuration_exaone4.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_exaone4(const ConfigReader& config, Model& model) {
  if (!config.find("layer_types") && !config.find("sliding_window"))
    throw config.error("sliding_window", "sliding_window is null, and layer_types is missing",
                       "give layer_types, one for each layer");
  build_gated_decoder(config,
                      {.name = "Exaone4",
                       .query_key_norms = QueryKeyNorms::each_head,
                       .norms = {"post_attention_layernorm", "post_feedforward_layernorm"},
                       .needs_kv_heads = true,
                       .why_no_decoder = "norms after each part, and of query and key"},
                      model);
}

/// Every fourth layer sees all.
void complete_exaone4(ConfigFields& fields, TransformersVersion) {
  if (!fields.is_null("layer_types")) return;
  const std::int64_t pattern = fields.integer("sliding_window_pattern", 1);
  fill_layer_types(fields, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
}

/// Source: transformers 5.24, configuration_exaone4.py, class Exaone4Config.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 16384, "layer_types": null, "max_position_embeddings": 2048,
  "model_type": "exaone4", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "pad_token_id": null, "rms_norm_eps": 1e-05, "rope_parameters": null, "sliding_window": 4096,
  "sliding_window_pattern": 4, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 102400})";

}  // namespace

ModelFamily exaone4_family() {
  return {.model_type = "exaone4",
          .default_class = "Exaone4ForCausalLM",
          .classes = {"Exaone4ForCausalLM", "Exaone4Model", "Exaone4ForSequenceClassification",
                      "Exaone4ForTokenClassification"},
          .generating_classes = {"Exaone4ForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_exaone4,
          .build = build_exaone4};
}

}  // namespace shardscope

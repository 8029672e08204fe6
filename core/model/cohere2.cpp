// Command R7B and Command A. Source: transformers 5.24, models/cohere2/modeling_cohere2.py and
// configuration_cohere2.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_pattern = 4;

void build_cohere2(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Cohere2",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .norm_class = "LayerNorm",
                       .epsilon_key = "layer_norm_eps",
                       .norms = {"input_layernorm"},
                       .why_no_decoder = "attention beside the feed-forward part"},
                      model);
}

void complete_cohere2(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  const std::int64_t heads = fields.integer("num_attention_heads", 1);
  fields.set("head_dim", std::to_string(fields.integer("hidden_size", 1) / heads));
}

/// The class takes a key away that it does not declare, where that says the types of layers.
void construct_cohere2(ConfigFields& fields, const Model&) {
  if (!fields.is_null("layer_types")) return;
  const std::int64_t pattern = fields.is_null("sliding_window_pattern")
                                   ? usual_pattern
                                   : fields.integer("sliding_window_pattern", 1);
  fields.erase("sliding_window_pattern");
  fill_layer_types(fields, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
}

/// Source: transformers 5.24, configuration_cohere2.py, class Cohere2Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 5, "eos_token_id": 255001,
  "hidden_act": "silu", "hidden_size": 8192, "initializer_range": 0.02, "intermediate_size": 22528,
  "layer_norm_eps": 1e-05, "layer_types": null, "logit_scale": 0.0625, "max_position_embeddings": 8192,
  "model_type": "cohere2", "num_attention_heads": 64, "num_hidden_layers": 40, "num_key_value_heads": null,
  "pad_token_id": 0, "rope_parameters": null, "sliding_window": 4096, "tie_word_embeddings": true,
  "use_cache": true, "vocab_size": 256000})";

}  // namespace

ModelFamily cohere2_family() {
  return {.model_type = "cohere2",
          .default_class = "Cohere2ForCausalLM",
          .classes = {"Cohere2ForCausalLM", "Cohere2Model"},
          .generating_classes = {"Cohere2ForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_cohere2,
          .construct = construct_cohere2,
          .build = build_cohere2};
}

}  // namespace shardscope

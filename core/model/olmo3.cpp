// OLMo 3. Source: transformers 5.24, models/olmo3/modeling_olmo3.py and
// configuration_olmo3.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr std::int64_t usual_pattern = 4;
constexpr std::string_view usual_theta = "500000.0";

bool slides(std::int64_t layer) { return (layer + 1) % usual_pattern != 0; }

void build_olmo3(const ConfigReader& config, Model& model) {
  check_rope_parameters(config);
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "Olmo3",
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::whole,
                       .norms = {"post_attention_layernorm", "post_feedforward_layernorm"},
                       .rotary_types = layer_types_of(config, slides),
                       .why_no_decoder = "norms after each part, and of query and key"},
                      model);
}

void complete_olmo3(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  fill_layer_types(fields, slides);
}

void construct_olmo3(ConfigFields& fields, const Model&) {
  fill_rope_by_type(fields, {"rope_theta", usual_theta}, {"", usual_theta});
}

/// Source: transformers 5.24, configuration_olmo3.py, class Olmo3Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": 50279,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "layer_types": null, "max_position_embeddings": 2048, "model_type": "olmo3", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": 1, "rms_norm_eps": 1e-05,
  "rope_parameters": null, "sliding_window": 4096, "tie_word_embeddings": false, "use_cache": true,
  "vocab_size": 50304})";

}  // namespace

ModelFamily olmo3_family() {
  return {.model_type = "olmo3",
          .default_class = "Olmo3ForCausalLM",
          .classes = {"Olmo3ForCausalLM", "Olmo3Model"},
          .generating_classes = {"Olmo3ForCausalLM"},
          .default_config = default_config,
          .complete = complete_olmo3,
          .construct = construct_olmo3,
          .build = build_olmo3};
}

}  // namespace shardscope

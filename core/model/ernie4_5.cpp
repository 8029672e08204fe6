// ERNIE 4.5, its dense models. Source: transformers 5.24, models/ernie4_5/modeling_ernie4_5.py and
// configuration_ernie4_5.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_theta = "500000.0"};

void build_ernie4_5(const ConfigReader& config, Model& model) {
  const bool bias = config.flag("use_bias");
  build_gated_decoder(config,
                      {.name = "Ernie4_5",
                       .rope = rope_keys,
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .mlp_bias = bias,
                       .attention_dropout = false,
                       .why_no_decoder = "rotary embedding of neighbours"},
                      model);
}

void complete_ernie4_5(ConfigFields& fields, TransformersVersion) { fill_key_value_heads(fields); }

/// Source: transformers 5.24, configuration_ernie4_5.py, class Ernie4_5Config.
constexpr std::string_view default_config = R"({
  "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
  "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 131072,
  "model_type": "ernie4_5", "num_attention_heads": 16, "num_hidden_layers": 18, "num_key_value_heads": 2,
  "pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_parameters": null, "tie_word_embeddings": true,
  "use_bias": false, "use_cache": true, "vocab_size": 103424})";

}  // namespace

ModelFamily ernie4_5_family() {
  return {.model_type = "ernie4_5",
          .default_class = "Ernie4_5ForCausalLM",
          .classes = {"Ernie4_5ForCausalLM", "Ernie4_5Model"},
          .generating_classes = {"Ernie4_5ForCausalLM"},
          .default_config = default_config,
          .rope = rope_keys,
          .complete = complete_ernie4_5,
          .build = build_ernie4_5};
}

}  // namespace shardscope

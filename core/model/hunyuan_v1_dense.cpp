// Hunyuan's dense models. Source: transformers 5.24,
// models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py and configuration_hunyuan_v1_dense.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.null_head_dim = true};

void build_hunyuan_v1_dense(const ConfigReader& config, Model& model) {
  // The class takes head_dim as it stands, null too, and multiplies it.
  if (!config.find("head_dim"))
    throw config.error("head_dim", "has no head_dim, and transformers has no default for it",
                       "give the size of a head, for example 128");
  const bool bias = config.flag("attention_bias");
  build_gated_decoder(config,
                      {.name = "HunYuanDenseV1",
                       .rope = rope_keys,
                       .qkv_bias = bias,
                       .out_bias = bias,
                       .query_key_norms = QueryKeyNorms::each_head,
                       .query_norm = "query_layernorm",
                       .key_norm = "key_layernorm",
                       .why_no_decoder = "norms of query and key"},
                      model);
}

void complete_hunyuan_v1_dense(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
}

/// Source: transformers 5.24, configuration_hunyuan_v1_dense.py, class HunYuanDenseV1Config.
constexpr std::string_view default_config = R"({
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eod_token_id": 3, "eos_token_id": 2,
  "head_dim": null, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 11008, "max_position_embeddings": 2048, "model_type": "hunyuan_v1_dense",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": null, "pad_token_id": 0,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_parameters": null, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 290943})";

}  // namespace

ModelFamily hunyuan_v1_dense_family() {
  return {.model_type = "hunyuan_v1_dense",
          .default_class = "HunYuanDenseV1ForCausalLM",
          .classes = {"HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model"},
          .generating_classes = {"HunYuanDenseV1ForCausalLM"},
          .default_config = default_config,
          .rope = rope_keys,
          .complete = complete_hunyuan_v1_dense,
          .build = build_hunyuan_v1_dense};
}

}  // namespace shardscope

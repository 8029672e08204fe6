// Seed-OSS. Source: transformers 5.24, models/seed_oss/modeling_seed_oss.py and
// configuration_seed_oss.py.
#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"

namespace shardscope {
namespace {

void build_seed_oss(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "SeedOss",
                       .qkv_bias = config.flag("attention_bias"),
                       .out_bias = config.flag("attention_out_bias"),
                       .mlp_bias = config.flag("mlp_bias"),
                       .why_no_decoder = "dropout of what each part adds"},
                      model);
}

void complete_seed_oss(ConfigFields& fields, TransformersVersion) {
  fill_key_value_heads(fields);
  fill_head_dim(fields);
}

/// Source: transformers 5.24, configuration_seed_oss.py, class SeedOssConfig.
constexpr std::string_view default_config = R"({
  "attention_bias": true, "attention_dropout": 0.1, "attention_out_bias": false, "bos_token_id": 0,
  "eos_token_id": 2, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 27648, "max_position_embeddings": 524288, "mlp_bias": false, "model_type": "seed_oss",
  "num_attention_heads": 80, "num_hidden_layers": 64, "num_key_value_heads": 8, "pad_token_id": 1,
  "pretraining_tp": 1, "residual_dropout": 0.1, "rms_norm_eps": 1e-06, "rope_parameters": null,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 155136})";

}  // namespace

ModelFamily seed_oss_family() {
  return {.model_type = "seed_oss",
          .default_class = "SeedOssForCausalLM",
          .classes = {"SeedOssForCausalLM", "SeedOssModel", "SeedOssForSequenceClassification",
                      "SeedOssForTokenClassification"},
          .generating_classes = {"SeedOssForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{},
          .complete = complete_seed_oss,
          .build = build_seed_oss};
}

}  // namespace shardscope
